"""Where MindSpore keeps its executor."""
