// Which addresses the platform may connect to: public ones, and those that the operator lists. Tenants choose the
// targets, so addresses of the local network, of this machine and of cloud metadata services are blocked (SSRF).
import { BlockList, isIP } from 'node:net'

export type MayReach = (address: string) => boolean

/** IPv4 ranges that are not public, from the IANA special-purpose registry. */
export const notPublicIPv4 = [
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
  // The host of a virtual machine on Azure, although the range is public.
  '168.63.129.16/32',
]
const notPublic4 = rangesOf(notPublicIPv4)

/** The only public IPv6 range. Mapped, translated (NAT64), local and multicast addresses are outside it. */
const global6 = rangesOf(['2000::/3'])
/** Exceptions in that range: Teredo and other protocols, documentation, and 6to4, which contains an IPv4 address. */
const notPublic6 = rangesOf(['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'])

/** False for a text that is not an address in its canonical form. */
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

/** From addresses and CIDRs, which config.ts has validated. */
function rangesOf(ranges: readonly string[]): BlockList {
  const list = new BlockList()
  for (const range of ranges) {
    const [address = '', bits] = range.split('/')
    const isIPv4 = isIP(address) === 4
    list.addSubnet(address, Number(bits ?? (isIPv4 ? 32 : 128)), isIPv4 ? 'ipv4' : 'ipv6')
  }
  return list
}
