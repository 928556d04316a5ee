"""Read a JSON topic into a Delta table with one standalone consumer, without a controller.

Leaves the table in ./shop-lake/orders. Uses the broker of LAGLESS_KAFKA__BOOTSTRAP where that is
set, and else starts one; LAGLESS_SPARK__URL names another Spark than local.
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

COUNT = 1000
lake = Path("shop-lake").absolute()
config = Path("shop.toml")

with ExitStack() as stack:
    bootstrap = os.environ.get("LAGLESS_KAFKA__BOOTSTRAP")
    if not bootstrap:
        bootstrap = stack.enter_context(Broker()).bootstrap
    topic = f"orders-{time.time_ns()}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)

    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(COUNT):
        order = {"id": f"o{number}", "price": 9.5, "quantity": number % 7}
        producer.produce(topic, json.dumps(order), partition=number % 2)
    producer.produce(topic, "this is not JSON", partition=0)
    producer.flush(30)

    config.write_text(f"""
group = "shop"
topics = ["{topic}"]
kafka.bootstrap = "{bootstrap}"
lake.path = "{lake}"

[topic.{topic}]
format = "json"
schema = "id string, price double, quantity int"
table = "orders"
""")
    command = [sys.executable, "-m", "lagless", "consumer", "1", "--config", str(config)]
    consumer = subprocess.Popen([*command, "--assign", f"{topic}:0,1"])
    try:
        table = lake / "orders"
        while not DeltaTable.is_deltatable(str(table)) or (
            sum(DeltaTable(str(table)).get_add_actions(flatten=True)["num_records"].to_pylist())
            < COUNT
        ):
            if consumer.poll() is not None:
                sys.exit("the consumer ended before it was done")
            time.sleep(0.5)
    finally:
        consumer.terminate()
        consumer.wait(60)

rows = ds.dataset(DeltaTable(str(lake / "orders")).file_uris()).to_table()
rejected = ds.dataset(DeltaTable(str(lake / "orders_rejected")).file_uris()).to_table()
print(f"{len(rows)} orders landed, {len(rejected)} record was rejected:")
print(rejected.select(["_partition", "_offset", "_value", "_reason"]).to_pylist()[0])
