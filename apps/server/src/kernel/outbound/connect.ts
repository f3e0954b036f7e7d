// Connects to a host that a tenant has named, for HTTP and SMTP. The name is resolved once, all its addresses are
// checked, and the connection uses only the checked addresses. So a different second answer of the DNS has no effect (DNS
// rebinding). TLS on top verifies the name.
import { constants } from 'node:crypto'
import { connect as connectSocket, isIP, type LookupFunction, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { mayReach } from './address.ts'
import { type Address, createResolve, type Resolve, resolveBySystem } from './resolve.ts'

export type OutboundReason =
  | 'bad_url'
  | 'address_not_allowed'
  | 'name_not_found'
  | 'unreachable'
  | 'timeout'
  | 'too_large'
  | 'compressed'
  | 'aborted'

/** Why there is no answer. The message is for the log only, because a tenant could scan ports with it. */
export class OutboundError extends Error {
  readonly reason: OutboundReason
  constructor(reason: OutboundReason, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'OutboundError'
    this.reason = reason
  }
}

export interface Connector {
  /** Whether the host is an address or well-known name that may not be reached. Makes no DNS query. */
  isForbidden(host: string): boolean
  /** All addresses of the host. Rejects unless all of them may be reached. */
  addressesOf(host: string): Promise<readonly Address[]>
  /** Rejects with OutboundError, or with the reason of the signal. */
  connect(target: Target): Promise<Socket>
}

interface ConnectorOptions {
  /** Addresses and CIDRs that may be reached although they are not public. */
  allow: readonly string[]
  /** Resolves a name to all its addresses. Default: /etc/hosts and DNS. */
  resolve?: Resolve
}

/** Further addresses of a name are not tried. */
const maxAddresses = 8

/** For hosts that tenants name. */
export function createConnector({ allow, resolve = createResolve() }: ConnectorOptions): Connector {
  const isAllowed = mayReach(allow)

  async function addressesOf(host: string): Promise<readonly Address[]> {
    const fixed = fixedAddresses(host)
    const addresses = fixed ?? (await resolveOrThrow(host, resolve))
    // A DNS answer with one forbidden address is rejected as a whole, because it is an attack.
    const forbidden = addresses.find(({ address }) => !isAllowed(address))
    if (!forbidden) return addresses.slice(0, maxAddresses)
    const usable = fixed?.filter(({ address }) => isAllowed(address)) ?? []
    if (usable.length === 0) throw notAllowed(host, forbidden.address)
    return usable
  }

  return {
    isForbidden: host => fixedAddresses(host)?.every(({ address }) => !isAllowed(address)) ?? false,
    addressesOf,
    connect: target => connectTo(addressesOf, target),
  }
}

/** For hosts that the operator names, which may have any address. */
export function operatorConnector(): Connector {
  const addressesOf = (host: string) => resolveOrThrow(host, resolveBySystem)
  return { isForbidden: () => false, addressesOf, connect: target => connectTo(addressesOf, target) }
}

interface Target {
  host: string
  port: number
  signal: AbortSignal
}

async function connectTo(addressesOf: Resolve, target: Target): Promise<Socket> {
  return openSocket(await untilAborted(addressesOf(target.host), target.signal), target)
}

const notAllowed = (host: string, address: string) =>
  new OutboundError(
    'address_not_allowed',
    `${host} is at ${address}, which is not public; if it is meant to be reached, list it in PLATFORM_OUTBOUND_ALLOW`,
  )

async function resolveOrThrow(name: string, resolve: Resolve): Promise<readonly Address[]> {
  const addresses = await resolve(name).catch(error => {
    throw new OutboundError('name_not_found', `${name} has no address`, error)
  })
  if (addresses.length === 0) throw new OutboundError('name_not_found', `${name} has no address`)
  return addresses
}

/** Names with the same addresses on every machine. */
const wellKnown: Readonly<Record<string, string[]>> = {
  localhost: ['127.0.0.1', '::1'],
  'metadata.google.internal': ['169.254.169.254'],
}

/** The addresses of an IP in any notation (127.1, 0x7f000001, [::1]) or a well-known name. Undefined for other names. */
function fixedAddresses(host: string): readonly Address[] | undefined {
  const name = host.toLowerCase().replace(/\.$/, '')
  const known = Object.hasOwn(wellKnown, name) ? wellKnown[name] : undefined
  const addresses = known ?? (name.endsWith('.localhost') ? wellKnown['localhost'] : literalAddresses(name))
  return addresses?.map(address => ({ address, family: isIP(address) }))
}

function literalAddresses(host: string): string[] | undefined {
  if (isIP(host) !== 0) return [host]
  // The URL parser accepts the same notations of an IPv4 address as the lookup of the system.
  const read = URL.parse(`http://${host}`)?.hostname.replace(/^\[|\]$/g, '') ?? ''
  return isIP(read) === 0 ? undefined : [read]
}

/** Connects to one of the addresses, which the caller has checked. The signal aborts only the attempt to connect. */
export function openSocket(addresses: readonly Address[], { host, port, signal }: Target): Promise<Socket> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted()
    const socket = connectSocket({ host: 'pinned', port, lookup: pinnedTo(addresses) })
    const abort = () => {
      reject(signal.reason)
      socket.destroy()
    }
    const fail = (error: unknown) => {
      signal.removeEventListener('abort', abort)
      reject(new OutboundError('unreachable', `${host} cannot be reached`, error))
    }
    signal.addEventListener('abort', abort, { once: true })
    socket.once('error', fail)
    socket.once('connect', () => {
      signal.removeEventListener('abort', abort)
      socket.off('error', fail)
      // The user of the connection may remove its listener earlier. Without one, an error would end the process.
      socket.on('error', () => {})
      resolve(socket)
    })
  })
}

/** The certificate must be valid for the host name, not for the address of the connection. */
export const startTls = (socket: Socket, host: string): TLSSocket =>
  connectTls({
    socket,
    host,
    ...(isIP(host) === 0 && { servername: host.replace(/\.$/, '') }),
    // Otherwise a server could request new handshakes without end.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
  })

/** A lookup function that returns the checked addresses. */
const pinnedTo =
  (addresses: readonly Address[]): LookupFunction =>
  (_name, { all }, done) => {
    const [first] = addresses
    if (all) done(null, [...addresses])
    else done(null, first!.address, first!.family)
  }

/** Rejects when the signal aborts. The work itself continues, and its result is ignored. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
