// Replies of the routes that browsers navigate to: links in mails and OAuth redirects.
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'

export const noStore = { 'cache-control': 'no-store' }

/** Mail scanners and browsers prefetch links. A prefetch must not consume a one-time token. */
export const isPrefetch = ({ method, headers }: RawRequest) =>
  method === 'HEAD' || /prefetch|preview/i.test(`${headers['sec-purpose'] ?? ''} ${headers['purpose'] ?? ''}`)

export const emptyReply: RawReply = { status: 204, headers: noStore, body: null }

/** The URL of this page can hold a token or a code, so the next page must not get it as referrer. */
export const redirect = (status: 302 | 303, location: string): RawReply => ({
  status,
  headers: { location, ...noStore, 'referrer-policy': 'no-referrer' },
  body: null,
})
