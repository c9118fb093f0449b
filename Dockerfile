# Image with Bloomery, for machines without a scheduler and for Kubernetes (docs/how-to/without-a-scheduler.md).
#
#   docker build -t bloomery:0.1.0 .
#   docker run --rm bloomery:0.1.0 bloomery doctor
#
# torch's packages bring the CUDA libraries. The driver comes from the host (NVIDIA's container toolkit).
FROM python:3.11-slim

# A C++ compiler builds csrc/, and Triton and torch.compile need a compiler when the training starts.
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/bloomery

# The packages change less often than the code, so they are a layer of their own. Versions are exact.
COPY requirements.lock ./
RUN python -m venv .venv \
    && .venv/bin/python -m pip install --disable-pip-version-check --no-cache-dir -r requirements.lock

COPY . .
RUN .venv/bin/python -m pip install --disable-pip-version-check --no-cache-dir --no-deps --no-build-isolation -e .

# torch asks for the name of the user, so the user must exist in the image.
RUN useradd --uid 1000 --create-home bloomery
USER bloomery
ENV PATH=/opt/bloomery/.venv/bin:$PATH

CMD ["bloomery", "--help"]
