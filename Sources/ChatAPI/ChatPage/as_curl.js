// Requests as lines for a shell.

/** The same request for a shell, with the token in `$T`. A form's body is `{ params, file }`. */
export function asCurl({ method, path, headers = {}, body }) {
  const quoted = (text) => `'${text.replace(/'/g, "'\\''")}'`;
  const words = ["curl", "-X", method, "-H", '"Authorization: Bearer $T"'];
  for (const [name, value] of Object.entries(headers)) words.push("-H", quoted(`${name}: ${value}`));
  if (typeof body === "string" && body) {
    words.push("-H", "'Content-Type: application/json'", "-d", quoted(body));
  } else if (body) {
    // With -F a semicolon would end the text, and a comma the file's name.
    if (body.params) words.push("--form-string", quoted(`params=${body.params}`));
    if (body.file) words.push("-F", quoted(`file=@"${body.file.replace(/["\\]/g, "\\$&")}"`));
  }
  return [...words, quoted(location.origin + path)].join(" ");
}
