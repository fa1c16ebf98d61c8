/// A PEM certificate chain and its key, read once at the start.
package struct CertificateFiles: Sendable {
  /// The file of the certificate chain.
  package let certificate: String
  /// The file of the private key.
  package let key: String

  /// Names the two files.
  package init(certificate: String, key: String) {
    self.certificate = certificate
    self.key = key
  }
}
