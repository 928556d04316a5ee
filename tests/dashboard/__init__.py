"""Tests of the dashboard: pure ones, and the page in a real browser."""
