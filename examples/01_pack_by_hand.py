"""Pack partitions into consumers, and see what moves when speeds change."""

import lagless

speeds = {"orders-0": 60.0, "orders-1": 50.0, "orders-2": 40.0, "orders-3": 30.0}
capacity = 100.0  # of one consumer, in bytes/s

before = lagless.pack(speeds, capacity)
print("at first:", before)

speeds["orders-0"] = 90.0
for algorithm in ("sticky", "mwf", "bfd"):
    after = lagless.pack(speeds, capacity, previous=before, algorithm=algorithm)
    moved = [name for name in speeds if after[name] != before[name]]
    score = lagless.rscore(speeds, capacity, before, after)
    print(f"{algorithm}: {after}, moved {moved}, Rscore {score:.2f}")
