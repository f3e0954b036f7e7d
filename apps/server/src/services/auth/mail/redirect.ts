// Where a link may lead a browser: the site itself, any port of a loopback site, or what the operator has listed.
// Anything else is silently replaced by the site: an open redirect would hand out sessions.
import type { AuthSettings } from '@plinth/contract/auth-settings.ts'
import { matchesGlob } from './glob.ts'

export const runnable = new Set(['javascript:', 'data:', 'vbscript:', 'file:', 'blob:', 'about:'])
const loopback = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/

/** Browsers take no more than that everywhere; and every pattern is held against it. */
const longestPlace = 2048

type Places = Pick<AuthSettings, 'site_url' | 'redirect_allow_list'>

/** The first of the given places that is allowed, or the site. */
export function redirectFrom(settings: Places, ...wanted: (string | undefined)[]): string {
  for (const each of wanted) {
    if (!each) continue
    const url = parse(each)
    return url && isAllowed(url, settings) ? url.href : settings.site_url
  }
  return settings.site_url
}

function parse(text: string): URL | undefined {
  if (text.length > longestPlace) return
  try {
    return new URL(text)
  } catch {
    return
  }
}

function isAllowed(url: URL, { site_url, redirect_allow_list }: Places): boolean {
  if (runnable.has(url.protocol) || url.username || url.password) return false
  const site = new URL(site_url)
  if (url.protocol === site.protocol && url.hostname === site.hostname)
    if (url.port === site.port || loopback.test(url.hostname)) return true
  const bare = url.href.replace(/[?#].*$/, '')
  const forms = [...new Set([url.href, bare, bare.replace(/\/$/, '')])]
  return redirect_allow_list.some(glob => forms.some(form => matchesGlob(glob, form)))
}

/** Puts values into the fragment, where they reach no server, or into the query. */
export function withFragment(place: string, values: Record<string, string | number | undefined>): string {
  const bare = place.replace(/#.*$/s, '')
  return `${bare}#${encode(values)}`
}

/** Behind what the query holds already, which stays as it was written. */
export function withQuery(place: string, values: Record<string, string | number | undefined>): string {
  const [bare, fragment] = place.split(/(?=#)/, 2) as [string, string?]
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

/** What a browser is told of a refusal, in the names OAuth has for it. */
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
