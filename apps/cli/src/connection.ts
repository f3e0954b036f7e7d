// Resolves the platform, the credential and the project of a command, in the order of the specification.
import type { Given } from './arguments.ts'
import { readLink, readTopology, topologyPath } from './directory-config.ts'
import { type Environment, setting } from './environment.ts'
import { Failure } from './failure.ts'
import { dataDirectory, inspect, readSecrets } from './local-platform.ts'

export interface Sources {
  given: Given
  environment: Environment
  cwd: string
}

export interface Found<T> {
  value: T
  /** Where it came from, for `config show --origin`. */
  origin: string
}

export interface Target {
  /** As configured, without a slash at the end. */
  url: string
  /** The URL to connect to; it differs only for the default. */
  connectUrl: string
  origin: string
  isDefault: boolean
}

export const defaultUrl = 'http://localhost:39001'
// The platform listens on 127.0.0.1. `localhost` may resolve to ::1 only, where another program may listen.
const defaultConnectUrl = 'http://127.0.0.1:39001'

export function resolveTarget({ given, environment, cwd }: Sources): Target {
  const flag = given.values['url']
  if (flag) return at(flag, '--url')
  const variable = setting(environment, 'PLATFORM_URL')
  if (variable) return at(variable, 'PLATFORM_URL')
  const name = given.values['env']
  if (name) return at(environmentUrl(cwd, name), `plinth.json, environment ${name}`)
  const { url } = readLink(cwd)
  if (url) return at(url, '.plinth/link.json')
  return { url: defaultUrl, connectUrl: defaultConnectUrl, origin: 'default', isDefault: true }
}

export function environmentUrl(cwd: string, name: string): string {
  const topology = readTopology(cwd)
  const found = topology.get(name)
  if (found) return found.url
  const known = [...topology.keys()].join(', ')
  throw new Failure(
    'environment_unknown',
    `There is no environment "${name}" in ${topologyPath(cwd)}${known ? `. Known environments: ${known}` : ''}.`,
    known ? null : `Add it: {"environments":{"${name}":{"url":"https://…"}}}`,
  )
}

function at(url: string, origin: string): Target {
  const checked = checkedUrl(url, origin)
  return { url: checked, connectUrl: checked, origin, isDefault: false }
}

export function checkedUrl(url: string, origin: string): string {
  const parsed = URL.parse(url)
  const isHttp = parsed?.protocol === 'http:' || parsed?.protocol === 'https:'
  if (!parsed || !isHttp || parsed.username || parsed.password || parsed.search || parsed.hash) {
    throw new Failure(
      'url_invalid',
      `"${url}" (from ${origin}) is not a valid URL of a platform.`,
      'Use a URL such as http://localhost:39001 or https://plinth.example.com.',
    )
  }
  return parsed.href.replace(/\/+$/, '')
}

/** PLATFORM_TOKEN, or the admin token of the platform of this directory when the target is that platform. */
export function resolveToken(sources: Sources, target: Target): Found<string> | null {
  const { environment } = sources
  const token = setting(environment, 'PLATFORM_TOKEN')
  if (token) return { value: token, origin: 'PLATFORM_TOKEN' }

  // Only if it runs: after a crash another program may listen on its port, and would receive the token.
  const dataDir = dataDirectory(sources)
  const { record } = inspect(dataDir)
  if (!record || !isSameLoopback(target.connectUrl, record.url)) return null
  const admin = setting(environment, 'PLATFORM_ADMIN_TOKEN')
  if (admin) return { value: admin, origin: 'PLATFORM_ADMIN_TOKEN' }
  // With DATABASE_URL the platform has no generated token, even if an earlier start left one here.
  const isEmbedded = !setting(environment, 'DATABASE_URL')
  const secret = isEmbedded && readSecrets(dataDir)['PLATFORM_ADMIN_TOKEN']
  return secret ? { value: secret, origin: `${dataDir}/secrets.json` } : null
}

export function requireToken(sources: Sources, target: Target): string {
  const found = resolveToken(sources, target)
  if (found) return found.value
  const start = target.isDefault ? 'Run plinth start here first, or set' : 'Set'
  throw new Failure(
    'token_missing',
    `No token for ${target.url}: PLATFORM_TOKEN is not set.`,
    `${start} PLATFORM_TOKEN to a platform token or the admin token, in the environment or in .env.`,
  )
}

/** The linked project is used only with the linked platform. */
export function resolveProject(sources: Sources, target: Target): Found<string> | null {
  const flag = sources.given.values['project']
  if (flag) return { value: flag, origin: '--project' }
  const variable = setting(sources.environment, 'PLATFORM_PROJECT')
  if (variable) return { value: variable, origin: 'PLATFORM_PROJECT' }
  const link = readLink(sources.cwd)
  const belongs = link.url === null || checkedUrl(link.url, '.plinth/link.json') === target.url
  return link.project_id && belongs ? { value: link.project_id, origin: '.plinth/link.json' } : null
}

export function isSameLoopback(a: string, b: string): boolean {
  const [left, right] = [URL.parse(a), URL.parse(b)]
  if (!left || !right || left.protocol !== right.protocol) return false
  return left.port === right.port && isLoopback(left.hostname) && isLoopback(right.hostname)
}

const isLoopback = (host: string) => host === 'localhost' || host === '[::1]' || /^127(\.\d+){3}$/.test(host)
