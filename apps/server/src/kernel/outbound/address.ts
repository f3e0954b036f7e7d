// Which addresses the platform itself may call: what is public, and what the operator lists. A tenant names the
// targets, so anything that could be a neighbour, the machine itself or its cloud's metadata is not one.
import { BlockList, isIP } from 'node:net'

export type MayReach = (address: string) => boolean

/** IPv4 that is not the public internet, after the IANA special-purpose registry. */
const notPublic4 = rangesOf([
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
  // Looks public, but is the machine's host on one large cloud.
  '168.63.129.16/32',
])

/** IPv6 is public in one range only: mapped, translated (NAT64), local and multicast forms are all outside it. */
const global6 = rangesOf(['2000::/3'])
/** What in that range is not: Teredo and other protocols, documentation, 6to4, which carries an IPv4 address. */
const notPublic6 = rangesOf(['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'])

/** Whatever is not an address in its plain form is not reached either. */
export function mayReach(allowed: readonly string[]): MayReach {
  const listed = rangesOf(allowed)
  return address => {
    const family = isIP(address)
    if (family === 0 || address.includes('%')) return false
    if (family === 4) return listed.check(address, 'ipv4') || !notPublic4.check(address, 'ipv4')
    if (listed.check(address, 'ipv6')) return true
    return global6.check(address, 'ipv6') && !notPublic6.check(address, 'ipv6')
  }
}

/** Of addresses and CIDRs, which were checked when the configuration was read. */
function rangesOf(ranges: readonly string[]): BlockList {
  const list = new BlockList()
  for (const range of ranges) {
    const [address = '', bits] = range.split('/')
    const isShort = isIP(address) === 4
    list.addSubnet(address, Number(bits ?? (isShort ? 32 : 128)), isShort ? 'ipv4' : 'ipv6')
  }
  return list
}
