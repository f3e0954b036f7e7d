// The parts of a URL that a tenant has named. The URL parser normalizes 127.1, 0x7f000001 and full-width dots to the
// address, so that the checks of connect.ts see what would be connected to.
import { OutboundError } from './connect.ts'

export interface HttpTarget {
  url: URL
  isTls: boolean
  /** Without the brackets of an IPv6 address. */
  host: string
  port: number
  origin: string
  /** With the query string. */
  path: string
}

const maxUrlLength = 8192

/** Throws OutboundError `bad_url`. */
export function readTarget(given: string): HttpTarget {
  if (given.length > maxUrlLength || !URL.canParse(given))
    throw new OutboundError('bad_url', 'The target is not a URL')
  const url = new URL(given)
  const isTls = url.protocol === 'https:'
  if (!isTls && url.protocol !== 'http:')
    throw new OutboundError('bad_url', `The protocol ${url.protocol} is not supported`)
  if (url.username !== '' || url.password !== '')
    throw new OutboundError('bad_url', 'The target contains a user name or password')
  if (url.port === '0') throw new OutboundError('bad_url', 'The target has port 0')
  const port = Number(url.port) || (isTls ? 443 : 80)
  return {
    url,
    isTls,
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port,
    origin: url.origin,
    path: url.pathname + url.search,
  }
}
