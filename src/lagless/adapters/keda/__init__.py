"""KEDA: an external scaler that reports over gRPC how many members should run.

Only this room imports the gRPC client. Nothing here counts members: the caller passes the wanted
number.
"""
