# Build on Swift's image for Debian 12, run on Debian 12: `docker build -t perch . && docker run -p 8080:8080 perch`.
FROM swift:6.3-bookworm AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends pkg-config libsqlite3-dev libmicrohttpd-dev \
      libcurl4-openssl-dev libsodium-dev libsimdjson-dev zlib1g-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY Package.swift openapi.yaml ./
COPY Sources Sources
# Not built here, but SwiftPM wants the folders of all targets.
COPY Tests Tests
RUN swift build -c release --product perch --static-swift-stdlib \
 && install -D -s "$(swift build -c release --show-bin-path)/perch" /out/perch

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates libmicrohttpd12 libsqlite3-0 libcurl4 \
      libsodium23 libsimdjson14 zlib1g \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* /var/log/* /usr/share/doc/* /usr/share/locale/* \
 && useradd --system --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin perch \
 && install -d -o perch -g perch -m 0700 /data
COPY --from=build /out/perch /usr/local/bin/perch
USER perch
WORKDIR /data
VOLUME /data
# It listens on all addresses of the container; `perch demo` still gives tokens only to requests whose Host is loopback,
# as it is behind `-p 127.0.0.1:8080:8080`, or is named by PERCH_DEMO_HOST.
# All it writes is under /data, so the root file system can be read-only and every capability dropped.
ENV PERCH_DATA=/data PERCH_LISTEN=0.0.0.0:8080
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=5s --retries=3 CMD ["/usr/local/bin/perch", "health"]
ENTRYPOINT ["/usr/local/bin/perch"]
CMD ["serve"]
