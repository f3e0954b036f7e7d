// Allowed redirect URLs: the site URL, any port of a loopback site, and the redirect allow list. Any other URL is
// replaced by the site URL, because an open redirect would leak sessions.
import type { AuthSettings } from '@plinth/contract/auth-settings.ts'
import { matchesGlob } from './glob.ts'

export const unsafeSchemes = new Set(['javascript:', 'data:', 'vbscript:', 'file:', 'blob:', 'about:'])
const loopback = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

/** Supported by all browsers, and a bound on the time for matching patterns. */
const maxUrlLength = 2048

type RedirectSettings = Pick<AuthSettings, 'site_url' | 'redirect_allow_list'>

/** The first given URL if it is allowed, else the site URL. */
export function redirectFrom(settings: RedirectSettings, ...candidates: (string | undefined)[]): string {
  for (const each of candidates) {
    if (!each) continue
    const url = parse(each)
    return url && isAllowed(url, settings) ? url.href : settings.site_url
  }
  return settings.site_url
}

function parse(text: string): URL | undefined {
  if (text.length > maxUrlLength) return
  try {
    return new URL(text)
  } catch {
    return
  }
}

function isAllowed(url: URL, { site_url, redirect_allow_list }: RedirectSettings): boolean {
  if (unsafeSchemes.has(url.protocol) || url.username || url.password) return false
  const site = new URL(site_url)
  if (url.protocol === site.protocol && url.hostname === site.hostname)
    if (url.port === site.port || loopback.test(url.hostname)) return true
  const bare = url.href.replace(/[?#].*$/, '')
  const forms = [...new Set([url.href, bare, bare.replace(/\/$/, '')])]
  return redirect_allow_list.some(glob => forms.some(form => matchesGlob(glob, form)))
}

/** Browsers do not send the fragment to a server. */
export function withFragment(url: string, values: Record<string, string | number | undefined>): string {
  const bare = url.replace(/#.*$/s, '')
  return `${bare}#${encode(values)}`
}

/** Appends to the query and keeps its existing text unchanged. */
export function withQuery(url: string, values: Record<string, string | number | undefined>): string {
  const [bare, fragment] = url.split(/(?=#)/, 2) as [string, string?]
  return `${bare}${bare.includes('?') ? '&' : '?'}${encode(values)}${fragment ?? ''}`
}

function encode(values: Record<string, string | number | undefined>): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(values))
    if (value !== undefined) parameters.set(name, String(value))
  return parameters.toString()
}

const errorByStatus: Readonly<Record<number, string>> = {
  400: 'invalid_request',
  401: 'unauthorized_client',
  403: 'access_denied',
  500: 'server_error',
  503: 'temporarily_unavailable',
}

/** Error parameters of a redirect, named as in OAuth 2.0 (RFC 6749). */
export const errorParameters = ({
  status,
  code,
  message,
}: {
  status: number
  code: string
  message: string
}) => ({
  error: errorByStatus[status] ?? (status >= 500 ? 'server_error' : 'invalid_request'),
  error_code: code,
  error_description: message,
})
