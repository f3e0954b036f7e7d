// Any origin may call a project. Keys, tokens and policies decide what a request may do, not its origin.
const allowed =
  'authorization, apikey, content-type, x-client-info, x-supabase-api-version, prefer, range, range-unit, accept-profile, content-profile, x-upsert, x-region, x-retry-count, cache-control, traceparent, tracestate, baggage, tus-resumable, upload-length, upload-offset, upload-metadata, upload-defer-length, upload-concat, upload-checksum, x-signature, x-metadata, x-robots-tag, x-http-method-override, if-none-match, if-modified-since, if-range'
const exposed =
  'x-supabase-api-version, x-total-count, link, content-range, content-location, location, preference-applied, x-sb-error-code, x-request-id, x-ratelimit-limit, x-ratelimit-remaining, retry-after, tus-resumable, tus-version, tus-extension, tus-max-size, upload-length, upload-offset, upload-metadata, upload-expires, upload-defer-length, tus-complete, etag, content-disposition, x-transformations, sb-auth-user-id'

export const cors = {
  headers: { 'access-control-allow-origin': '*', 'access-control-expose-headers': exposed },
  preflight: {
    'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
    'access-control-allow-headers': allowed,
    'access-control-max-age': '86400',
  },
} as const
