"""Kubernetes: one Deployment per consumer, through the official client."""
