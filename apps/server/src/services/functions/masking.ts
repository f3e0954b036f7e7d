// Replaces the values of secrets in what a function prints.

/** Shorter values occur in ordinary text, and say nothing. */
const minLength = 6
/** A line of a secret of several lines, such as a key in PEM, which a function may print line by line. */
const minLineLength = 16

export type Mask = (text: string) => string

export function maskOf(secrets: Iterable<string>): Mask {
  const values = new Set<string>()
  for (const secret of secrets) {
    if (secret.length >= minLength) values.add(secret)
    const lines = secret.split('\n')
    if (lines.length > 1) for (const line of lines) if (line.length >= minLineLength) values.add(line)
  }
  // Longer ones first, because one secret may contain another.
  const ordered = [...values].sort((a, b) => b.length - a.length)
  return text => {
    let masked = text
    for (const value of ordered) if (masked.includes(value)) masked = masked.replaceAll(value, '***')
    return masked
  }
}
