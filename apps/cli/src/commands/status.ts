import type { BackupProblem, ServicesHealth } from '@plinth/contract/health.ts'
import type { Project } from '@plinth/contract/projects.ts'
import { resolveProject, resolveTarget, resolveToken, type Target } from '../connection.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { requestHealth, versionIn } from '../health.ts'
import { warnAboutTarget } from '../platform.ts'
import { type Cell, fields, minute, type Paint, panel, table } from '../print.ts'
import { openProject } from '../project.ts'
import { revealed } from './projects.ts'

export async function health(context: Context): Promise<Answer> {
  const target = resolveTarget(context)
  warnAboutTarget(target, context)
  const found = await servicesHealth(context, target, resolveToken(context, target)?.value)
  const problems = found.services['backups']?.problems ?? null
  for (const warning of found.warnings) context.screen.warn(warning)
  return {
    data: {
      url: target.url,
      status: found.status,
      version: found.version,
      services: withDetail(found),
      warnings: found.warnings,
      backup_problems: problems,
    },
    text: paint =>
      [
        fields(paint, [
          ['url', target.url],
          ['status', found.status],
          ['version', found.version],
        ]),
        '',
        table(
          paint,
          ['SERVICE', 'STATUS', 'DETAIL'],
          Object.entries(found.services).map(([name, each]) => [name, each.status, each.detail ?? null]),
        ),
        ...(problems && problems.length > 0 ? ['', problemsText(paint, problems)] : []),
      ].join('\n'),
  }
}

/** Backups that cannot be verified. The platform names them to a token of read scope. */
const problemsText = (paint: Paint, problems: readonly BackupProblem[]): string =>
  table(
    paint,
    ['BACKUP', 'PROJECT', 'STATE', 'VERIFIED', 'WHAT IS WRONG'],
    problems.map(each => [
      each.backup_id,
      each.project_id,
      each.kind,
      minute(each.verified_at),
      each.verify_error,
    ]),
  )

/** Throws unless the platform is healthy. It needs no token, and the response has the version. */
async function servicesHealth(context: Context, target: Target, token?: string): Promise<ServicesHealth> {
  const asked = requestHealth(target.connectUrl, '/health/services', { token })
  context.connection = {
    url: target.url,
    serverVersion: asked.then(({ body }) => versionIn(body)).catch(() => null),
    abandon: () => {},
  }
  const { isOk, status, body } = await asked
  if (!isServicesHealth(body)) {
    throw new Failure(
      'not_a_platform',
      `${target.url} answered ${status}, but it is not a Plinth platform.`,
      'Check the URL: plinth config show --origin shows where it comes from.',
    )
  }
  if (isOk) return body
  const down = Object.entries(body.services).filter(([, each]) => each.status !== 'ok')
  const parts = down.map(
    ([name, each]) => `${name} is ${each.status}${each.detail ? ` (${each.detail})` : ''}`,
  )
  throw new Failure(
    'platform_unavailable',
    `${target.url} is ${body.status}: ${parts.join(', ') || `it answered ${status}`}.`,
    'See the log of the platform. On its machine, plinth status --local shows the path.',
  )
}

/** A service without a detail has null, so that scripts can rely on the field. */
const withDetail = ({ services }: ServicesHealth) =>
  Object.fromEntries(
    Object.entries(services).map(([name, { status, detail }]) => [name, { status, detail: detail ?? null }]),
  )

const isServicesHealth = (body: unknown): body is ServicesHealth =>
  typeof body === 'object' && body !== null && 'services' in body && 'status' in body

export async function status(context: Context): Promise<Answer> {
  if (context.given.switches.has('local')) {
    if (context.screen.format === 'env')
      throw new Failure('usage_invalid_value', 'plinth status --local does not support --output env.')
    const { localStatus } = await import('./local-status.ts')
    return localStatus(context)
  }
  const target = resolveTarget(context)
  warnAboutTarget(target, context)
  const found = await servicesHealth(context, target)
  for (const warning of found.warnings) context.screen.warn(warning)
  const linked = await linkedProject(context, target)
  const urls = linked && addresses(linked.project.api_url)
  return {
    data: {
      url: target.url,
      status: found.status,
      version: found.version,
      services: withDetail(found),
      warnings: found.warnings,
      project: linked && {
        id: linked.project.id,
        slug: linked.project.slug,
        name: linked.project.name,
        status: linked.project.status,
      },
      urls,
      keys: linked && { anon_key: linked.project.anon_key, service_role_key: linked.serviceRoleKey },
    },
    text: paint => statusText(paint, target, found, linked),
    ...(linked && { env: envOf(linked) }),
  }
}

interface Linked {
  project: Project
  serviceRoleKey: string | null
}

/** Without a token the status has no project. */
async function linkedProject(context: Context, target: Target): Promise<Linked | null> {
  const isNeeded = context.screen.format === 'env' || context.given.switches.has('show-service-role')
  if (!isNeeded) {
    if (!resolveProject(context, target)) return null
    if (!resolveToken(context, target)) {
      context.screen.hint('Set PLATFORM_TOKEN to see the project.')
      return null
    }
  }
  const { platform, id } = await openProject(context, target)
  const [project, serviceRoleKey] = await Promise.all([
    platform.projects.read({ params: { id } }),
    context.given.switches.has('show-service-role') ? revealed(platform, id) : null,
  ])
  return { project, serviceRoleKey }
}

/** Under the names that existing applications use. */
function addresses(apiUrl: string): Record<string, string> {
  return {
    API_URL: apiUrl,
    REST_URL: `${apiUrl}/rest/v1`,
    GRAPHQL_URL: `${apiUrl}/graphql/v1`,
    AUTH_URL: `${apiUrl}/auth/v1`,
    STORAGE_URL: `${apiUrl}/storage/v1`,
    FUNCTIONS_URL: `${apiUrl}/functions/v1`,
    REALTIME_URL: `${apiUrl.replace(/^http/, 'ws')}/realtime/v1`,
  }
}

const envOf = ({ project, serviceRoleKey }: Linked): Record<string, string> => ({
  ...addresses(project.api_url),
  ANON_KEY: project.anon_key,
  ...(serviceRoleKey && { SERVICE_ROLE_KEY: serviceRoleKey }),
})

function statusText(paint: Paint, target: Target, found: ServicesHealth, linked: Linked | null): string {
  const { database, ...others } = found.services
  const state = (each: ServicesHealth['services'][string]): string =>
    each.detail ? `${each.status}, ${each.detail}` : each.status
  const platform: [string, Cell][] = [
    ['Management', `${target.url}/api/v1`],
    ['Status', found.status],
    ['Version', found.version],
    ...Object.entries(others).map(([name, each]): [string, Cell] => [name, state(each)]),
  ]
  const panels = [panel(paint, 'Platform', platform)]
  if (database) panels.push(panel(paint, 'Database', [['Status', state(database)]]))
  if (linked) {
    const { project, serviceRoleKey } = linked
    panels.push(
      panel(paint, `APIs of ${project.slug} (${project.status})`, Object.entries(addresses(project.api_url))),
    )
    panels.push(
      panel(paint, 'Keys', [
        ['ANON_KEY', project.anon_key],
        ['SERVICE_ROLE_KEY', serviceRoleKey ?? '•••••••• (--show-service-role)'],
      ]),
    )
  }
  return panels.join('\n')
}
