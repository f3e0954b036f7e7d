// The W3C trace context of a request: https://www.w3.org/TR/trace-context/
const version00Length = 55
const traceparent =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[\x21-\x7e]*)?$/

/** The trace id in a `traceparent` header. Null without one and for an invalid one, which must be ignored. */
export function traceIdOf(header: string | string[] | undefined): string | null {
  if (typeof header !== 'string') return null
  // Only later versions may have more fields.
  if (header.length !== version00Length && (header.length < version00Length || header.startsWith('00-')))
    return null
  return traceparent.exec(header)?.[1] ?? null
}
