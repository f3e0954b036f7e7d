// What browsers, and programs that look ahead for people, are answered on the routes they follow by themselves.
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'

export const noStore = { 'cache-control': 'no-store' }

/** Whoever looks at a link before its reader does must not use it up. */
export const isLookAhead = ({ method, headers }: RawRequest) =>
  method === 'HEAD' || /prefetch|preview/i.test(`${headers['sec-purpose'] ?? ''} ${headers['purpose'] ?? ''}`)

export const nothingDone: RawReply = { status: 204, headers: noStore, body: null }

/** Nobody else learns where the browser came from: the address it had can hold a token or a code. */
export const redirect = (status: 302 | 303, location: string): RawReply => ({
  status,
  headers: { location, ...noStore, 'referrer-policy': 'no-referrer' },
  body: null,
})
