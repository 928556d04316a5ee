"""KEDA: an external scaler that says over gRPC how many members should run.

Only this room imports the gRPC client. Nothing here counts members: it is told how many are wanted.
"""
