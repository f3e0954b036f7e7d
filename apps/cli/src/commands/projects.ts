import type { CreatedProject, Project } from '@plinth/contract/projects.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { connect, type Platform } from '../platform.ts'
import { clean, fields, minute, type Paint, table } from '../print.ts'
import { everyProject, idOf, openProject } from '../project.ts'

export async function list(context: Context): Promise<Answer> {
  const status = context.given.values['status'] as Project['status'] | undefined
  const projects = await everyProject(connect(context), status)
  return {
    data: { projects, total: projects.length },
    hints: projects.length === 0 ? ['No projects yet: plinth projects create <name> creates one.'] : [],
    text: paint =>
      projects.length === 0
        ? ''
        : table(
            paint,
            ['ID', 'SLUG', 'NAME', 'STATUS', 'CREATED'],
            projects.map(each => [each.id, each.slug, each.name, each.status, minute(each.created_at)]),
          ),
  }
}

export async function create(context: Context): Promise<Answer> {
  const { operands, values } = context.given
  const body = { name: operands['name']!, ...(values['slug'] && { slug: values['slug'] }) }
  const project = await connect(context).projects.create({ body })
  return {
    data: project,
    text: paint => createdText(paint, project),
    hints: ['The service_role key and the JWT secret are shown only now. Store them in a safe place.'],
  }
}

function createdText(paint: Paint, project: CreatedProject): string {
  return [
    `Created project ${paint.bold(clean(project.name))}`,
    '',
    fields(paint, [
      ['id', project.id],
      ['slug', project.slug],
      ['API URL', project.api_url],
      ['anon key', project.anon_key],
      ['service_role key', project.service_role_key],
      ['JWT secret', project.jwt_secret],
    ]),
    '',
    'Try it:',
    `  curl ${project.api_url}/whoami/v1 -H 'apikey: ${project.anon_key}'`,
  ].join('\n')
}

export async function info(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const project = await platform.projects.read({ params: { id } })
  return { data: project, text: paint => infoText(paint, project) }
}

function infoText(paint: Paint, project: Project): string {
  return fields(paint, [
    ['id', project.id],
    ['slug', project.slug],
    ['name', project.name],
    ['description', project.description],
    ['status', project.status],
    ['API URL', project.api_url],
    ['anon key', project.anon_key],
    ['settings', JSON.stringify(project.settings)],
    ['quotas', JSON.stringify(project.quotas)],
    ['created', minute(project.created_at)],
    ['updated', minute(project.updated_at)],
  ])
}

export async function suspend(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const project = await platform.projects.suspend({ params: { id } })
  return {
    data: project,
    text: () => `Suspended ${clean(project.name)}: its API responds with 403 until it is resumed.`,
  }
}

export async function resume(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const project = await platform.projects.resume({ params: { id } })
  return { data: project, text: () => `Resumed ${clean(project.name)}: its API serves requests again.` }
}

export async function remove(context: Context): Promise<Answer> {
  const platform = connect(context)
  const id = await idOf(context.given.operands['id']!, platform)
  const project = await platform.projects.read({ params: { id } })
  await confirmDelete(context, project)
  await platform.projects.remove({ params: { id } })
  return {
    data: { id, slug: project.slug, name: project.name, deleted: true },
    text: () => `Deleted ${clean(project.name)} (${project.slug}).`,
  }
}

async function confirmDelete(context: Context, project: Project): Promise<void> {
  const { given, screen } = context
  const confirmed = given.values['confirm']
  if (confirmed !== undefined) return compareNames(confirmed, project)
  if (given.switches.has('yes')) return
  if (!screen.isInteractive) {
    throw new Failure(
      'confirmation_missing',
      `Deleting ${project.name} needs a confirmation, and there is no terminal to ask for it.`,
      `Run it again with --confirm ${project.slug}`,
    )
  }
  const { ask } = await import('../prompt.ts')
  const createdAt = minute(project.created_at)
  screen.hint(
    `${clean(project.name)} (${project.slug}), created ${createdAt}: its database, users and files will be deleted permanently.`,
  )
  compareNames(await ask(context, `Type ${clean(project.name)} to delete it: `), project)
}

function compareNames(typed: string, { name, slug }: Project): void {
  if (typed === slug || typed.trim() === name.trim()) return
  throw new Failure(
    'confirmation_mismatch',
    `"${typed}" is neither the slug nor the name of the project ${name} (${slug}). Nothing was deleted.`,
    `To delete that project, confirm with ${slug}`,
  )
}

export async function keys(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const isRevealing = context.given.switches.has('show-service-role')
  const [project, serviceRoleKey] = await Promise.all([
    platform.projects.read({ params: { id } }),
    isRevealing ? revealed(platform, id) : null,
  ])
  return {
    data: { project_id: id, anon_key: project.anon_key, service_role_key: serviceRoleKey },
    text: paint =>
      fields(paint, [
        ['anon key', project.anon_key],
        ['service_role key', serviceRoleKey ?? '••••••••'],
      ]),
    hints: isRevealing ? [] : ['--show-service-role reveals the service_role key. The platform audits that.'],
  }
}

export async function pooler(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const strings = await platform.pooler.reveal({ params: { id } })
  return {
    data: strings,
    text: paint =>
      fields(paint, [
        ['direct', strings.direct],
        ['pooled', strings.pooled ?? 'no pooler is configured'],
        ['read-only', strings.read_only ?? 'no replica is configured'],
      ]),
    hints: ['These strings give full access to the database of the project. The platform has audited this.'],
  }
}

/** Only when it is shown, because the server audits every reveal. */
export async function revealed(platform: Platform, id: string): Promise<string> {
  const { service_role_key } = await platform.projects.revealServiceRoleKey({ params: { id } })
  return service_role_key
}
