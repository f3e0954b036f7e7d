// POST requests to URLs that tenants have named, over connections that stay open. For each request the host is resolved
// and all its addresses are checked, as in connect.ts. A kept connection is used only if its address is one of them.
// Redirects are not followed, and time, bytes and connections are limited.

import { remember } from '#src/kernel/remember.ts'
import { type Connector, untilAborted } from './connect.ts'
import { ConnectionPool, type PoolLimits } from './connection-pool.ts'
import { createDeadlines } from './deadlines.ts'
import type { ConnectionLimits } from './kept-connection.ts'
import { createLookups } from './lookups.ts'
import { Post, type PostAnswer, type PostRequest, type PostShared } from './post.ts'
import { cancelled, fromOutbound, timedOut } from './post-error.ts'
import { type HttpTarget, readTarget } from './target.ts'

export interface KeepAlive {
  /** Rejects with PostError if the URL may not be called. For a request that stores the URL; `post` checks it again. */
  check(url: string): Promise<void>
  /** Rejects with PostError. The request may be sent twice if a kept connection is closed before the answer. */
  post(request: PostRequest): Promise<PostAnswer>
  /** Cancels all requests and closes all connections. */
  close(): Promise<void>
}

export interface KeepAliveOptions extends ConnectionLimits, PoolLimits {
  /** How much of an answer's body is returned. */
  keptBytes: number
  /** How long requests to the same host share a lookup. */
  sharedLookupMs: number
}

const defaults: KeepAliveOptions = {
  keptBytes: 1024,
  maxBytes: 1_000_000,
  maxReadBytes: 2_000_000,
  maxHeadBytes: 16_384,
  idleMs: 4000,
  maxPerOrigin: 10,
  maxIdle: 100,
  sharedLookupMs: 1000,
}

const checkTimeoutMs = 10_000
/** URLs that are parsed once. */
const maxTargets = 500

export function createKeepAlive(connector: Connector, options: Partial<KeepAliveOptions> = {}): KeepAlive {
  const limits = { ...defaults, ...options }
  const lookups = createLookups(connector, limits.sharedLookupMs)
  const pool = new ConnectionPool(limits)
  const deadlines = createDeadlines()
  const targets = new Map<string, HttpTarget>()
  const shared: PostShared = { limits, lookups, pool, deadlines, isClosed: false }

  function targetOf(url: string): HttpTarget {
    const parsed = targets.get(url)
    if (parsed) return parsed
    try {
      const target = readTarget(url)
      remember(targets, url, target, maxTargets)
      return target
    } catch (error) {
      throw fromOutbound(error)
    }
  }

  return {
    async check(url) {
      const { host } = targetOf(url)
      const signal = AbortSignal.timeout(checkTimeoutMs)
      await untilAborted(lookups.addressesOf(host), signal).catch(error => {
        throw signal.aborted ? timedOut(checkTimeoutMs) : fromOutbound(error)
      })
    },
    post(request) {
      return new Promise((resolve, reject) => {
        if (shared.isClosed || request.signal?.aborted) throw cancelled()
        new Post(shared, targetOf(request.url), request, resolve, reject).start()
      })
    },
    async close() {
      shared.isClosed = true
      deadlines.expireAll()
      await pool.close()
    },
  }
}
