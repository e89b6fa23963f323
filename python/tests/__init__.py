"""Tests of the package and of the scripts."""
