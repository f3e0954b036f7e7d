// The address of a client behind proxies, for connections that the framework does not handle.
import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'

/** Reads X-Forwarded-For from its end, as long as the address before it is that of a trusted proxy. */
export function createClientAddress(trustedProxies: readonly string[]): (request: IncomingMessage) => string {
  const trusted = new BlockList()
  for (const range of trustedProxies) {
    const [address = '', bits] = range.split('/')
    const isIPv4 = isIP(address) === 4
    trusted.addSubnet(address, Number(bits ?? (isIPv4 ? 32 : 128)), isIPv4 ? 'ipv4' : 'ipv6')
  }
  const isTrusted = (address: string) => {
    const plain = address.replace(/^::ffff:(?=[\d.]+$)/i, '')
    const family = isIP(plain)
    return family !== 0 && trusted.check(plain, family === 4 ? 'ipv4' : 'ipv6')
  }
  return ({ socket, headers }) => {
    const forwarded = [headers['x-forwarded-for'] ?? []].flat().join(',').split(',')
    let address = socket.remoteAddress ?? ''
    for (let at = forwarded.length - 1; at >= 0 && isTrusted(address); at--) {
      const before = forwarded[at]!.trim()
      if (isIP(before) === 0) break
      address = before
    }
    return address
  }
}
