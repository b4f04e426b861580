# KV Theater on the CPU, as a normal user:
#   docker build -t kvtheater .
#   docker run --rm -p 8765:8765 -v kvtheater-data:/data kvtheater
# The server listens on all addresses of the container, so it asks for the token that it prints.
FROM python:3.12-slim

# a C++ compiler: the forward pass is compiled
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 1000 kvtheater \
    && mkdir /data \
    && chown kvtheater /data

WORKDIR /src
COPY constraints.txt ./
RUN pip install --no-cache-dir -c constraints.txt torch --index-url https://download.pytorch.org/whl/cpu
COPY . .
RUN pip install --no-cache-dir -c constraints.txt . && rm -rf /src/*

USER kvtheater
WORKDIR /home/kvtheater
VOLUME /data
EXPOSE 8765
ENTRYPOINT ["kvtheater"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8765", "--data-dir", "/data"]
