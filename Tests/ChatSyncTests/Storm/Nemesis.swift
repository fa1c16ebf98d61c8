import Platform

@testable import Origin

/// A fault between Perch and the upstream.
enum Nemesis: String, CaseIterable, CustomStringConvertible {
  case networkGone, outwardLost, inwardLost, slow, blackHole, repliesLost, errors, garbage, tooMany
  case pagesCut, bodiesCut, tokensForgotten, webhooksShuffled, noChangelogs, noReplyListing, restarts, clears
  case tiesShuffled

  var description: String { rawValue }

  /// Whether webhooks come. Where they might hide the fault, they do not.
  var hasWebhooks: Bool {
    switch self {
    case .outwardLost, .inwardLost, .webhooksShuffled: true
    default: false
    }
  }

  /// The features that the upstream offers.
  var weather: OriginSide.Weather {
    var weather = OriginSide.Weather()
    weather.hasChangelogs = self != .noChangelogs
    weather.listsReplies = self != .noReplyListing
    return weather
  }

  private func requests(_ kind: String, _ more: [String: Value] = [:]) -> [Value] {
    var fault: [String: Value] = ["kind": .string(kind), "path": .string("/v3/*")]
    fault.merge(more) { $1 }
    return [.object(fault)]
  }

  private func webhooks(_ kind: String, _ probability: Double) -> Value {
    .object([
      "kind": .string(kind), "path": .string("others"), "milliseconds": .integer(20),
      "probability": .double(probability),
    ])
  }

  /// The faults set in the stand-in while the nemesis lasts.
  var faults: [Value] {
    let often: [String: Value] = ["probability": .double(0.5)]
    return switch self {
    case .outwardLost: requests("refuse")
    case .inwardLost: [webhooks("drop_webhook", 1)]
    case .slow: requests("delay", ["milliseconds": .integer(15)])
    case .blackHole: requests("dark", often)
    case .repliesLost: requests("lose_reply", often)
    case .errors: requests("status", ["status": .integer(503), "probability": .double(0.7)])
    case .garbage: requests("html", often)
    case .tooMany: requests("status", ["status": .integer(429), "retry_after": .integer(3)])
    case .pagesCut: requests("cut_page", often)
    case .bodiesCut: requests("cut_body", often)
    case .tokensForgotten: requests("forget_tokens", often)
    case .tiesShuffled: requests("unstable_ties")
    case .webhooksShuffled:
      [
        webhooks("drop_webhook", 0.3), webhooks("duplicate_webhook", 0.5), webhooks("shuffle_webhook", 0.5),
      ]
    case .networkGone, .noChangelogs, .noReplyListing, .restarts, .clears: []
    }
  }
}
