// Grows with its issue.
