extension Command {
  /// `perch serve`
  static let serve = Command(
    name: "serve", summary: "the service",
    settings: [
      Setting(
        "data", .path, default: "data", "the directory of the cache and the secrets; made when missing"),
      Setting("listen", .address, default: "127.0.0.1:8080", "where to listen; port 0 picks a free one"),
      Setting(
        "admin-listen", .optionalAddress, default: "",
        "where /metrics, /docs, /openapi.* and /v1/admin/* are answered instead; none when empty"),
    ] + AccessParts.settings + SyncParts.settings + [
      Setting(
        "webhook-secret", .secret, default: "", "signs the upstream's webhooks; the upstream's key when empty"
      ),
      Setting(
        "cache-max-size", .size, default: "256MB",
        "maximum size of the cache, at least 64MB; beyond it messages are evicted", isReread: true),
      Setting(
        "cache-clear-order", .text, default: "message_collection_accessed_at",
        "what a full cache evicts first: the default, or fields such as cached_bytes:desc", isReread: true),
      Setting(
        "spool-max-size", .size, default: "1GB",
        "the most bytes of unsent messages' files, including files that are arriving"),
      Setting(
        "collection-idle", .duration, default: "1h", "how long a collection is kept that no client asks for"),
      Setting(
        "max-parked", .number(1...1_000_000), default: "20000",
        "the most polls that wait at once; fewer if the limit of open files is too low"),
      Setting(
        "max-parked-per-user", .number(1...1_000_000), default: "12000", "polls of one user that wait at once"
      ),
      Setting(
        "keep-events", .number(100...100_000_000), default: "200000",
        "the most events that the log keeps for clients"),
      Setting(
        "keep-events-for", .longDuration, default: "7d", "how long the log keeps an event; at least 1m"),
      Setting("workers", .number(1...64), default: "2", "threads that read requests and answer"),
      Setting(
        "max-connections", .number(16...1_000_000), default: "24000",
        "the most connections at once; fewer if the limit of open files is too low"),
      Setting("cors-origins", .list, default: "", "origins whose scripts may read answers; * for all"),
      Setting(
        "chat-page", .choice(["on", "off"]), default: "on",
        "whether / is the chat page; off: a page of links"),
      Setting(
        "file-origins", .origins, default: "",
        "origins whose pictures, films and sounds the chat page shows; other files are links"),
      Setting("tls-certificate", .path, default: "", "PEM file of a certificate chain; turns TLS on"),
      Setting("tls-key", .path, default: "", "PEM file of the certificate's key"),
      Setting("access-log", .choice(["on", "off"]), default: "on", "a line of JSON on stderr per request"),
      Setting(
        "log-level", .choice(["debug", "info", "warning", "error"]), default: "info", "what is logged"),
      Setting(
        "http-library", .choice(["checked", "unknown"]), default: "checked",
        "unknown: use libmicrohttpd's public interface alone, as with a version that is not known; slower"),
      Setting(
        "stop-within", .duration, default: "10s", "how long running requests may still take when it stops"),
    ]
  ) { values in try Service(values).run() }
}
