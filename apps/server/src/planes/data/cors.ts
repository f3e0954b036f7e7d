// Any origin may call a project. Keys, tokens and policies decide what a request may do, not its origin.
const allowed =
  'authorization, apikey, content-type, x-client-info, x-supabase-api-version, prefer, range, range-unit, accept-profile, content-profile, x-upsert, x-region, x-retry-count, cache-control, traceparent, tracestate, baggage, tus-resumable, upload-length, upload-offset, upload-metadata, upload-defer-length, upload-concat, upload-checksum, x-signature, x-metadata, x-robots-tag, x-http-method-override, if-none-match, if-modified-since, if-range'
const exposed =
  'x-supabase-api-version, x-total-count, link, allow, accept-ranges, date, content-encoding, content-profile, content-range, content-location, location, preference-applied, x-sb-error-code, x-request-id, x-command-tag, www-authenticate, x-ratelimit-limit, x-ratelimit-remaining, retry-after, tus-resumable, tus-version, tus-extension, tus-max-size, upload-length, upload-offset, upload-metadata, upload-expires, upload-defer-length, tus-complete, etag, content-disposition, x-transformations, sb-auth-user-id'

/** Applications choose the names of their own headers. The list is as long as the answer can be. */
const maxRequested = { headers: 100, characters: 4096 }
const headerName = /^[!#$%&'*+.^_`|~0-9a-z-]+$/
const known = new Set(allowed.split(', '))

/** The known headers and those that the browser asks for. A wildcard would not include Authorization. */
export function allowedHeaders(requested = ''): string {
  if (requested.length > maxRequested.characters) return allowed
  const names = requested
    .toLowerCase()
    .split(',', maxRequested.headers)
    .map(name => name.trim())
    .filter(name => headerName.test(name) && !known.has(name))
  return [allowed, ...new Set(names)].join(', ')
}

export const cors = {
  headers: { 'access-control-allow-origin': '*', 'access-control-expose-headers': exposed },
  preflight: (requested: string | undefined) => ({
    'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
    'access-control-allow-headers': allowedHeaders(requested),
    'access-control-max-age': '86400',
    vary: 'Access-Control-Request-Headers',
  }),
} as const
