import Platform

/// The names and texts of the seeded users.
enum SeedText {
  struct Person: Sendable {
    let id: String
    let nickname: String
    let team: String
  }

  static let users = [
    Person(id: "alice", nickname: "Alice", team: "design"),
    Person(id: "bob", nickname: "Bob 🚲", team: "engine"),
    Person(id: "carol", nickname: "Carol Lefèvre", team: "office"),
    Person(id: "dave", nickname: "דוד", team: "engine"),
  ]

  /// People who are only in the crowd.
  static let crowd: [Person] = (0..<150).map { number in
    let first = ["Amina", "Bảo", "Chiara", "Dmitri", "Élodie", "Farid", "Greta", "Hiro", "Ines", "João"]
    let last = [
      "Abe", "Baker", "Costa", "Dahl", "Ek", "Fofana", "Gül", "Haas", "Ito", "Jansen", "Kaya", "Lima",
    ]
    return Person(
      id: "user-\(number)", nickname: "\(first[number % 10]) \(last[number * 7 % 12])",
      team: ["design", "engine", "office"][number % 3])
  }

  static let lines = [
    "good morning", "has anybody seen the new build?", "מישהו יודע מתי הפגישה?", "👍", "lunch at twelve? 🍜",
    "the tests are green again", "نعم، في الساعة الثالثة", "see you tomorrow", "who broke the door 😀",
    "ça marche très bien", "日本語でも大丈夫", "thanks!", "I'll be ten minutes late", "👨‍👩‍👧‍👦 weekend plans?",
    "the numbers are in the sheet:\nrow 12, and the one below", "no", "אולי מחר, ואולי tomorrow at 9:00",
    "that is a \"feature\" \\o/", "can you look at the third picture?", "on it",
  ]

  static let official = [
    "Welcome. This channel is for announcements only.", "The office is closed on Friday.",
    "New coffee machine on the second floor ☕️", "Please change your passwords this week.",
    "Fire drill at 10:30.", "The canteen has a new menu.",
  ]

  static let reactions = ["👍", "😀", "❤️", "🎉", "thumbs_down"]

  /// The pictures that file messages show.
  static let pictureCount = 8

  static func picture(_ number: Int) -> String {
    let hue = number * 360 / pictureCount
    return """
      <svg xmlns="http://www.w3.org/2000/svg" width="320" height="200" viewBox="0 0 320 200">
      <rect width="320" height="200" fill="hsl(\(hue),60%,85%)"/>
      <circle cx="\(60 + number * 25)" cy="90" r="44" fill="hsl(\(hue),55%,55%)"/>
      <path d="M0 \(150 + number * 3) Q 160 \(90 + number * 8) 320 160 V200 H0 Z" fill="hsl(\(hue),40%,40%)"/>
      <text x="16" y="186" font-family="sans-serif" font-size="18" fill="#fff">Picture \(number + 1)</text>
      </svg>
      """
  }
}
