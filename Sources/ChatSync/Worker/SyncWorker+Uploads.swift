import ChatCache
import ChatModel
import Platform

// Uploads the files of unsent messages (B45). A commit begins the upload, and a commit ends it and puts the
// file's url into the message.
extension SyncWorker {
  /// Uploads the lane's next file, if one is due.
  func upload(_ lane: OutboxLaneName) async throws -> Outcome {
    let progress = try await advanceUploads(lane, endedUploads.removeValue(forKey: lane))
    // Where the chat server takes no separate uploads, each file is sent in the same request as its message.
    if plan.lacks(.uploads) { plan.outboxChanged(lane, now: now) }
    guard let job = progress.begun else { return .drained(nextTryIn: progress.nextTryIn) }
    uploading[lane] = job.row
    // The message may have been taken back while the upload's start was stored.
    endUnwantedUpload(of: lane)
    let ended = await bring(job, lane)
    uploading[lane] = nil
    sendingCounts.countUpload(ended.outcome)
    let after = try await advanceUploads(lane, ended, mayBegin: false)
    plan.outboxChanged(lane, now: now)
    return .drained(nextTryIn: after.nextTryIn)
  }

  /// Stores how the lane's last upload ended, and begins the next one. If the commit fails, the outcome is
  /// kept for the lane's next turn.
  private func advanceUploads(
    _ lane: OutboxLaneName, _ ended: EndedUpload?, mayBegin: Bool = true
  ) async throws -> UploadProgress {
    do {
      return try await store.advanceUploads(
        lane, after: ended, mayBegin: mayBegin && plan.link.isOnline && !isStopped,
        areOffered: !plan.lacks(.uploads), outboxPolicy, random: random.next())
    } catch {
      endedUploads[lane] = ended
      throw error
    }
  }

  private func bring(_ job: UploadJob, _ lane: OutboxLaneName) async -> EndedUpload {
    guard let path = store.path(of: job.file.file) else {
      return EndedUpload(job, .rejection(code: OutboxRow.fileMissing))
    }
    let file = OutgoingFile(path: path, name: job.file.name, mime: job.file.mime, size: job.file.size)
    let (store, row) = (store, job.row)
    let steps = UploadSteps(after: job.file.progress)
    do {
      let url = try await upstream.upload(file) { sent, total in
        if let percent = steps.next(sent, of: total) { store.noteProgress(percent, of: row, in: lane) }
      }
      plan.met(nil, now: now)
      return EndedUpload(job, .success(message: nil), url: url)
    } catch {
      // The upstream throws nothing else.
      return await failed(job, error as? UpstreamError ?? .canceled)
    }
  }

  private func failed(_ job: UploadJob, _ error: UpstreamError) async -> EndedUpload {
    plan.met(error, now: now)
    if error.deniesCapability {
      // After the third refusal each file is sent in the same request as its message (B32).
      let isLacking = plan.refused(.uploads, now: now)
      if isLacking { await learn(.uploads, isOffered: false) }
      let wait = isLacking ? 0 : SyncWorker.refusedUploadWait
      return EndedUpload(job, .wait(until: clock.wallMilliseconds() + wait))
    }
    if error.refusesFile { return EndedUpload(job, .rejection(code: "upload_refused"), message: "\(error)") }
    if case .rejection(let code, let message) = error {
      return EndedUpload(job, .rejection(code: String(code)), message: message)
    }
    return EndedUpload(job, outcome(error))
  }

  /// The wait until an upload that was refused as not offered is tried again (ms).
  private static let refusedUploadWait: Int64 = 1_000

  /// Ends the lane's upload under way if its message was taken back or ended otherwise.
  func endUnwantedUpload(of lane: OutboxLaneName) {
    guard let row = uploading[lane] else { return }
    do {
      if try !store.isUploadWanted(row) { tasks[.upload(lane)]?.cancel() }
    } catch {
      Log.line(.warning, "upload_not_looked_at", ["reason": .text("\(error)")])
    }
  }
}

/// The steps of one upload that events tell.
private final class UploadSteps: Sendable {
  private let told: Guarded<Int64>

  init(after percent: Int64) { told = Guarded(percent) }

  /// The percentage, if it reaches a step that is not told yet. 100 is told when the upload has ended.
  func next(_ sent: Int64, of total: Int64) -> Int64? {
    guard total > 0 else { return nil }
    let percent = min(99, sent * 100 / total)
    return told.withLock { told in
      guard percent >= told + UploadStep.percent else { return nil }
      told = percent
      return percent
    }
  }
}
