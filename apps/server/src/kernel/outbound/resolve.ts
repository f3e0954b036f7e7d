// Resolves host names that tenants have set, with direct DNS queries. `dns.lookup` uses a thread until it ends, and only
// two run at once in the process. So a name server that never answers would delay all other lookups, including those of
// the database and the cache.
import { promises as dns } from 'node:dns'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'

export interface Address {
  address: string
  family: number
}
export type Resolve = (name: string) => Promise<readonly Address[]>

/** The lookup of the system, for names that the operator sets. */
export const resolveBySystem: Resolve = name => dns.lookup(name, { all: true })

/** One query and one retry. With two name servers, 8 seconds in total. */
const timeouts = { timeout: 2000, tries: 2, maxTimeout: 2000 }

/** Queries the name servers of the system unless others are given. */
export function createResolve(servers?: readonly string[]): Resolve {
  const resolver = new dns.Resolver(timeouts)
  if (servers) resolver.setServers([...servers])
  return async name => {
    const listed = await listedInHosts(name)
    if (listed.length > 0) return listed
    // A name without a dot needs the search domains of the network, which only the lookup of the system applies.
    if (!name.replace(/\.$/, '').includes('.')) return resolveBySystem(name)
    const [ipv4, ipv6] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
    const found = [
      ...(ipv4.status === 'fulfilled' ? ipv4.value.map(address => ({ address, family: 4 })) : []),
      ...(ipv6.status === 'fulfilled' ? ipv6.value.map(address => ({ address, family: 6 })) : []),
    ]
    if (found.length === 0 && ipv4.status === 'rejected') throw ipv4.reason
    return found
  }
}

async function listedInHosts(name: string): Promise<Address[]> {
  const text = await readFile('/etc/hosts', 'utf8').catch(() => '')
  return addressesInHosts(text, name)
}

export function addressesInHosts(text: string, name: string): Address[] {
  const wanted = name.toLowerCase().replace(/\.$/, '')
  return text.split('\n').flatMap(line => {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/)
    const family = isIP(address)
    return family !== 0 && names.some(each => each.toLowerCase() === wanted) ? [{ address, family }] : []
  })
}
