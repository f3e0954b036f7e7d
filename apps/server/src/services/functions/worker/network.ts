// The network rules of a worker, as flags of Deno. Public IPv4 addresses may be reached; Deno checks each address after it
// has resolved a name. Other addresses are denied, except those that the operator allows. IPv6 is closed by the host
// (apps/runtime), because Deno knows no IPv6 ranges.
import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import { mayReach, notPublicIPv4 } from '#src/kernel/outbound/address.ts'

interface Range {
  /** Inclusive bounds, as numbers. */
  from: number
  to: number
}

const numberOf = (address: string) => address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
const addressOf = (number: number) =>
  [24, 16, 8, 0].map(shift => Math.floor(number / 2 ** shift) % 256).join('.')

function rangeOf(cidr: string): Range {
  const [address = '', bits = '32'] = cidr.split('/')
  const size = 2 ** (32 - Number(bits))
  const from = Math.floor(numberOf(address) / size) * size
  return { from, to: from + size - 1 }
}

function without(ranges: readonly Range[], { from, to }: Range): Range[] {
  return ranges.flatMap(range => {
    if (to < range.from || from > range.to) return [range]
    return [
      ...(range.from < from ? [{ from: range.from, to: from - 1 }] : []),
      ...(range.to > to ? [{ from: to + 1, to: range.to }] : []),
    ]
  })
}

/** The fewest CIDRs that have exactly the addresses of a range. */
function cidrsOf({ from, to }: Range): string[] {
  const cidrs: string[] = []
  for (let at = from; at <= to; ) {
    let bits = 32
    while (bits > 0 && at % 2 ** (33 - bits) === 0 && at + 2 ** (33 - bits) - 1 <= to) bits--
    cidrs.push(`${addressOf(at)}/${bits}`)
    at += 2 ** (32 - bits)
  }
  return cidrs
}

/** Denied IPv4 ranges: those that are not public, without those that the operator allows. */
export function deniedRanges(
  allowed: readonly string[],
  denied: readonly string[] = notPublicIPv4,
): string[] {
  const open = allowed.filter(each => isIP(each.split('/')[0]!) === 4).map(rangeOf)
  return open.reduce(without, denied.map(rangeOf)).flatMap(cidrsOf)
}

/** The IPv4 addresses of this machine. Public ones are no way around a firewall. */
const ownAddresses = () =>
  Object.values(networkInterfaces())
    .flatMap(each => each ?? [])
    .filter(({ family }) => family === 'IPv4')
    .map(({ address }) => address)

/** What the host itself needs: its sockets, and the name by which it calls the platform. */
const always = (sockets: readonly string[]) => [...sockets.map(path => `unix:${path}`), 'platform.invalid:80']

/** `hosts` is the list of the project, which only narrows: undefined means all public hosts. */
export function networkFlags(
  allowed: readonly string[],
  hosts: readonly string[] | undefined,
  sockets: readonly string[],
): string[] {
  const ranges = deniedRanges(allowed)
  const isLoopbackOpen = !ranges.includes('127.0.0.0/8')
  const isPublic = mayReach([])
  const isListed = (address: string) => !deniedRanges(allowed, [address]).includes(`${address}/32`)
  const own = ownAddresses().filter(address => isPublic(address) && !isListed(address))
  const denied = [...ranges, ...own, '[::1]', '[::]', ...(isLoopbackOpen ? [] : ['localhost'])]
  return [
    hosts === undefined ? '--allow-net' : `--allow-net=${[...always(sockets), ...hosts].join(',')}`,
    `--deny-net=${denied.join(',')}`,
  ]
}
