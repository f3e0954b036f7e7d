// Which platform, which credential and which project a command means, in the order of the specification.
import type { Given } from './arguments.ts'
import { type Environment, setting } from './environment.ts'
import { Failure } from './failure.ts'
import { dataDirectory, inspect, readSecrets } from './local-platform.ts'
import { readLink, readTopology, topologyPath } from './workplace.ts'

export interface Sources {
  given: Given
  environment: Environment
  cwd: string
}

export interface Found<T> {
  value: T
  /** Where it came from, in words for `config show --origin`. */
  origin: string
}

export interface Target {
  /** As the user knows it, without a slash at the end. */
  url: string
  /** What is dialled; only the default differs. */
  dial: string
  origin: string
  isDefault: boolean
}

export const defaultUrl = 'http://localhost:39001'
// The platform listens on 127.0.0.1, and `localhost` may mean ::1 alone, or somebody else's port there.
const defaultDial = 'http://127.0.0.1:39001'

export function resolveTarget({ given, environment, cwd }: Sources): Target {
  const flag = given.values['url']
  if (flag) return at(flag, '--url')
  const variable = setting(environment, 'PLATFORM_URL')
  if (variable) return at(variable, 'PLATFORM_URL')
  const name = given.values['env']
  if (name) return at(environmentUrl(cwd, name), `plinth.json, environment ${name}`)
  const { url } = readLink(cwd)
  if (url) return at(url, '.plinth/link.json')
  return { url: defaultUrl, dial: defaultDial, origin: 'default', isDefault: true }
}

export function environmentUrl(cwd: string, name: string): string {
  const topology = readTopology(cwd)
  const found = topology.get(name)
  if (found) return found.url
  const known = [...topology.keys()].join(', ')
  throw new Failure(
    'environment_unknown',
    `There is no environment "${name}" in ${topologyPath(cwd)}${known ? `, only ${known}` : ''}.`,
    known ? null : `Add it: {"environments":{"${name}":{"url":"https://…"}}}`,
  )
}

function at(url: string, origin: string): Target {
  const checked = checkedUrl(url, origin)
  return { url: checked, dial: checked, origin, isDefault: false }
}

export function checkedUrl(url: string, origin: string): string {
  const parsed = URL.parse(url)
  const isHttp = parsed?.protocol === 'http:' || parsed?.protocol === 'https:'
  if (!parsed || !isHttp || parsed.username || parsed.password || parsed.search || parsed.hash) {
    throw new Failure(
      'url_invalid',
      `"${url}" (from ${origin}) is not the URL of a platform.`,
      'Write it like http://localhost:39001 or https://plinth.example.com.',
    )
  }
  return parsed.href.replace(/\/+$/, '')
}

/** PLATFORM_TOKEN, or the admin token of this directory's own platform when it is the one being called. */
export function resolveToken(sources: Sources, target: Target): Found<string> | null {
  const { environment } = sources
  const token = setting(environment, 'PLATFORM_TOKEN')
  if (token) return { value: token, origin: 'PLATFORM_TOKEN' }

  // Proven to run: on the port of one that crashed anybody may be listening for its token.
  const dataDir = dataDirectory(sources)
  const { record } = inspect(dataDir)
  if (!record || !isSameLoopback(target.dial, record.url)) return null
  const admin = setting(environment, 'PLATFORM_ADMIN_TOKEN')
  if (admin) return { value: admin, origin: 'PLATFORM_ADMIN_TOKEN' }
  // Beside a database of its own the platform knows no generated token, whatever an earlier start left here.
  const isEmbedded = !setting(environment, 'DATABASE_URL')
  const secret = isEmbedded && readSecrets(dataDir)['PLATFORM_ADMIN_TOKEN']
  return secret ? { value: secret, origin: `${dataDir}/secrets.json` } : null
}

export function requireToken(sources: Sources, target: Target): string {
  const found = resolveToken(sources, target)
  if (found) return found.value
  const local = target.isDefault ? 'Run plinth start here first, or set' : 'Set'
  throw new Failure(
    'token_missing',
    `No token for ${target.url}: PLATFORM_TOKEN is not set.`,
    `${local} PLATFORM_TOKEN to a platform token or the admin token, in the environment or in .env.`,
  )
}

/** The linked project belongs to the linked platform: another URL leaves it out. */
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
