# Two images from one file:
#   docker build --target thin -t lagless:0.1.0 .         monitor, controller, dashboard, consumers; no JVM
#   docker build --target full -t lagless-spark:0.1.0 .   with Java, Spark, the Kafka connector and Delta

FROM python:3.11-slim-bookworm AS wheel
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim-bookworm AS base
RUN groupadd --gid 10001 lagless && useradd --uid 10001 --gid 10001 --no-create-home lagless
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 \
    NUMBA_CACHE_DIR=/tmp/numba XDG_CACHE_HOME=/opt/lagless/cache
WORKDIR /tmp
ENTRYPOINT ["lagless"]

FROM base AS thin
COPY constraints.txt /tmp/
COPY --from=wheel /wheels /wheels
# The thin Spark client takes the place of pyspark, so its pin does not apply.
RUN sed -i '/^pyspark==/d' /tmp/constraints.txt \
    && pip install -c /tmp/constraints.txt "$(echo /wheels/*.whl)[kafka,connect,kubernetes,dashboard]" \
    && rm -rf /wheels /tmp/constraints.txt
USER 10001:10001

FROM base AS full
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
COPY constraints.txt /tmp/
COPY --from=wheel /wheels /wheels
RUN pip install -c /tmp/constraints.txt "$(echo /wheels/*.whl)[kafka,spark,kubernetes,dashboard]" \
    && rm -rf /wheels /tmp/constraints.txt \
    && python -m lagless.embedded.jars \
    && chmod -R a+rX /opt/lagless
USER 10001:10001
