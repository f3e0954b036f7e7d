// Replaces the values of secrets in what a function prints.

/** Shorter values occur in ordinary text, and say nothing. */
const minLength = 6
/** A line of a secret of several lines, such as a key in PEM, which a function may print line by line. */
const minLineLength = 16
/** Each value is searched in each line of output. */
const maxValues = 1000
const stars = '***'

/** `isCut`: the text goes on, so its end may be the beginning of a secret. */
export type Mask = (text: string, isCut?: boolean) => string

export function maskOf(secrets: Iterable<string>): Mask {
  const values = new Set<string>()
  const lines = new Set<string>()
  for (const secret of secrets) {
    if (secret.length >= minLength) values.add(secret)
    if (secret.includes('\n') && lines.size < maxValues)
      for (const line of secret.split('\n')) if (line.length >= minLineLength) lines.add(line)
  }
  // Longer ones first, because one secret may contain another.
  const ordered = [...values, ...lines].slice(0, maxValues).sort((a, b) => b.length - a.length)
  return (text, isCut = false) => {
    let masked = text
    for (const value of ordered) if (masked.includes(value)) masked = masked.replaceAll(value, stars)
    const end = isCut ? Math.min(...ordered.map(value => partAtEnd(masked, value))) : Infinity
    return end < masked.length ? masked.slice(0, end) + stars : masked
  }
}

const maxTries = 20

/** Where the text ends with the beginning of the value, or Infinity. */
function partAtEnd(text: string, value: string): number {
  const start = value.slice(0, minLength)
  let at = text.indexOf(start, Math.max(0, text.length - value.length + 1))
  for (let tries = 0; at >= 0 && tries < maxTries; tries++) {
    if (value.startsWith(text.slice(at))) return at
    at = text.indexOf(start, at + 1)
  }
  return Infinity
}
