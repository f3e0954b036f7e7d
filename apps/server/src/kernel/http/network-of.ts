// The key of rate limits per client: an IPv4 address, or a /64 network, because a client usually has a whole IPv6 /64.
import { isIPv6 } from 'node:net'

const mapped = /^::ffff:(\d{1,3}(?:\.\d{1,3}){3})$/i

export function networkOf(ip: string): string {
  const ipv4 = mapped.exec(ip)?.[1]
  if (ipv4 !== undefined) return ipv4
  const address = ip.replace(/%.*$/, '')
  if (!isIPv6(address)) return ip
  const [head = '', tail] = address.split('::', 2)
  const before = head === '' ? [] : head.split(':')
  const after = tail ? tail.split(':') : []
  const missing = tail === undefined ? 0 : 8 - before.length - after.length
  const groups = [...before, ...Array.from({ length: Math.max(0, missing) }, () => '0'), ...after]
  return `${groups
    .slice(0, 4)
    .map(group => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`
}
