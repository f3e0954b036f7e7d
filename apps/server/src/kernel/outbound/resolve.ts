// From a host name that a tenant has set to its addresses. DNS is asked directly: the system's look-up occupies a
// thread until it ends, two at most run at once in the whole process, and a name server that never answers would
// keep everybody else's look-ups waiting, those of the database and the cache included.
import { promises as dns } from 'node:dns'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'

export interface Address {
  address: string
  family: number
}
export type Resolve = (name: string) => Promise<readonly Address[]>

/** For names that the operator sets: whatever the system is configured to do. */
export const resolveBySystem: Resolve = name => dns.lookup(name, { all: true })

/** A query and its one repetition; with two name servers, 8 seconds in all. */
const patience = { timeout: 2000, tries: 2, maxTimeout: 2000 }

/** Asks the name servers of the system unless others are given. */
export function createResolve(servers?: readonly string[]): Resolve {
  const resolver = new dns.Resolver(patience)
  if (servers) resolver.setServers([...servers])
  return async name => {
    const listed = await listedInHosts(name)
    if (listed.length > 0) return listed
    // Without a dot it is the network's own, found by the search domains, which only the system's look-up applies.
    if (!name.replace(/\.$/, '').includes('.')) return resolveBySystem(name)
    const [short, long] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
    const found = [
      ...(short.status === 'fulfilled' ? short.value.map(address => ({ address, family: 4 })) : []),
      ...(long.status === 'fulfilled' ? long.value.map(address => ({ address, family: 6 })) : []),
    ]
    if (found.length === 0 && short.status === 'rejected') throw short.reason
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
