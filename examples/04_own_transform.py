"""Shape records on their way into the table with your own function.

The function is `totals:with_total`, in a file that this example writes; see 03 for the rest.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pyarrow.dataset as ds
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable

from lagless.lab.parts.broker import Broker

Path("totals.py").write_text("""
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def with_total(orders: DataFrame) -> DataFrame:
    return orders.withColumn("total", F.col("price") * F.col("quantity"))
""")
lake = Path("shop-lake").absolute()

with ExitStack() as stack:
    bootstrap = os.environ.get("LAGLESS_KAFKA__BOOTSTRAP")
    if not bootstrap:
        bootstrap = stack.enter_context(Broker()).bootstrap
    topic = f"priced-{time.time_ns()}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for quantity in range(5):
        producer.produce(topic, json.dumps({"price": 2.5, "quantity": quantity}))
    producer.flush(30)

    Path("priced.toml").write_text(f"""
group = "shop-priced"
topics = ["{topic}"]
kafka.bootstrap = "{bootstrap}"
lake.path = "{lake}"

[topic.{topic}]
format = "json"
schema = "price double, quantity int"
transform = "totals:with_total"
table = "priced"
""")
    command = [sys.executable, "-m", "lagless", "consumer", "1", "--config", "priced.toml"]
    consumer = subprocess.Popen([*command, "--assign", f"{topic}:0"])
    try:
        table = lake / "priced"
        while not DeltaTable.is_deltatable(str(table)) or not DeltaTable(str(table)).file_uris():
            if consumer.poll() is not None:
                sys.exit("the consumer ended before it was done")
            time.sleep(0.5)
    finally:
        consumer.terminate()
        consumer.wait(60)

rows = ds.dataset(DeltaTable(str(lake / "priced")).file_uris()).to_table().sort_by("_offset")
print("totals:", rows["total"].to_pylist())
