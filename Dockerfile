# Two images from one file, on Debian 12 and its Python 3.11:
#   docker build --target thin -t lagless:0.1.0 .         monitor, controller, dashboard, consumers; no JVM
#   docker build --target full -t lagless-spark:0.1.0 .   with Java, Spark, the Kafka connector and Delta
# scripts/images builds both without a container engine, with buildah.

ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS base
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 lagless \
    && useradd --uid 10001 --gid 10001 --no-create-home lagless
ENV PATH=/opt/lagless/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    XDG_CACHE_HOME=/opt/lagless/cache NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES= \
    LAGLESS_KERNELS=/opt/lagless/kernels NUMBA_CACHE_DIR=/tmp/lagless-kernels
WORKDIR /tmp
ENTRYPOINT ["lagless"]

# What only the build needs stays in these stages: pip, the sources, and how to reach the registries.
FROM base AS build
ARG PIP_CERT PIP_INDEX_URL JAVA_TOOL_OPTIONS
RUN apt-get update && apt-get install -y --no-install-recommends python3-venv
RUN python3 -m venv /opt/lagless/venv
WORKDIR /build
COPY pyproject.toml README.md LICENSE constraints.txt scripts/install-pinned ./
COPY src src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 UV_NO_CACHE=1

FROM build AS thin-build
ARG PIP_CERT PIP_INDEX_URL
# The thin Spark client replaces pyspark, so the pin of pyspark does not apply.
RUN sed -i -E '/^pyspark==/,/[^\\]$/d' constraints.txt \
    && ./install-pinned /opt/lagless/venv/bin/python3 '.[kafka,connect,kubernetes,dashboard]'
# A pod that starts compiles nothing: byte code and kernels come with the image. The kernels are for
# any x86-64 or arm64 processor, since the cluster's nodes are not known here.
RUN pip uninstall --yes --quiet uv setuptools pip \
    && python3 -m compileall -q -j 0 /opt/lagless/venv/lib \
    && NUMBA_CACHE_DIR=/opt/lagless/kernels python3 -c "import lagless as l; [l.pack({0: 1.0}, 1.0, algorithm=a) for a in l.algorithms() if a != 'exact']"

FROM build AS full-build
ARG PIP_CERT PIP_INDEX_URL JAVA_TOOL_OPTIONS
RUN apt-get install -y --no-install-recommends openjdk-17-jre-headless
RUN ./install-pinned /opt/lagless/venv/bin/python3 '.[kafka,spark,kubernetes,dashboard]' \
    && python3 -m lagless.adapters.spark.jars spark
# A pod that starts compiles nothing: byte code and kernels come with the image. The kernels are for
# any x86-64 or arm64 processor, since the cluster's nodes are not known here.
RUN pip uninstall --yes --quiet uv setuptools pip \
    && python3 -m compileall -q -j 0 /opt/lagless/venv/lib \
    && NUMBA_CACHE_DIR=/opt/lagless/kernels python3 -c "import lagless as l; [l.pack({0: 1.0}, 1.0, algorithm=a) for a in l.algorithms() if a != 'exact']"
# Nor does its JVM read ten thousand classes from jars: they come in an archive for this Java and these jars.
RUN python3 -m lagless.adapters.spark.archive

FROM base AS thin
COPY --from=thin-build /opt/lagless /opt/lagless
USER 10001:10001

FROM base AS full
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
COPY --from=full-build /opt/lagless /opt/lagless
USER 10001:10001
