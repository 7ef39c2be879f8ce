# The base of a consumer: docker build -f docker/worker.Dockerfile -t autoscaler-worker .
# An image of your own copies its program on top: FROM autoscaler-worker, COPY consumer.py /app/, CMD ["python", "consumer.py"]
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}
COPY pyproject.toml README.md /src/
COPY autoscaler /src/autoscaler
RUN pip install --no-cache-dir /src && rm -rf /src \
    && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin worker
WORKDIR /app
USER 10001:10001
CMD ["python", "-c", "import autoscaler.worker"]
