// Policy of /metrics: who may scrape. With a token, everybody who sends it. Without one, only this machine: a request that a
// proxy on this machine has forwarded comes from elsewhere.
import type { IncomingHttpHeaders } from 'node:http'
import { BlockList, isIP } from 'node:net'
import { isSame } from '#src/kernel/crypto/keys.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { nobody } from '#src/kernel/http/observation.ts'
import type { Plane } from '#src/kernel/http/plane.ts'
import { managementRefusal } from '../management/plane.ts'

export type Scraper = 'scraper'

export const metricsPlane = (token: string | undefined): Plane<Scraper> => ({
  bodyLimit: 0,
  admit(_route, { headers, ip }) {
    if (token === undefined) {
      if (isLoopback(ip) && !isForwarded(headers)) return 'scraper'
      throw new Refusal('route_not_found', 'There is nothing at this address')
    }
    const [, given] = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '') ?? []
    if (given !== undefined && isSame(given, token)) return 'scraper'
    throw new Refusal('unauthorized', 'Metrics need the value of PLATFORM_METRICS_TOKEN as a Bearer token')
  },
  identify: () => nobody,
  refuse: failure => ({ body: managementRefusal(failure), headers: {} }),
})

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

/** The block list also finds IPv4 addresses that are written as IPv6. A client that has disconnected has no address. */
const isLoopback = (address: string) =>
  isIP(address) !== 0 && loopback.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')

/** What proxies and load balancers add. */
const forwarding =
  /^(forwarded|via|x-forwarded.*|x-original-.*|x-real-ip|x-client-ip|x-cluster-client-ip|x-envoy-.*|true-client-ip|cf-.*|fastly-client-ip)$/

const isForwarded = (headers: IncomingHttpHeaders): boolean =>
  Object.keys(headers).some(name => forwarding.test(name))
