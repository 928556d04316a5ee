"""Kubernetes: a provisioner that runs each consumer as a Deployment.

Only this room and the laboratory import the Kubernetes client. Nothing here decides how many
consumers there should be.
"""
