import type { CreatedProject, Project } from '@plinth/contract/projects.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { connect, type Platform } from '../platform.ts'
import { clean, fields, minute, type Paint, table } from '../print.ts'
import { everyProject, idOf, projectId } from '../project.ts'

export async function list(context: Context): Promise<Answer> {
  const status = context.given.values['status'] as Project['status'] | undefined
  const projects = await everyProject(connect(context), status)
  return {
    data: { projects, total: projects.length },
    hints: projects.length === 0 ? ['No projects yet: plinth projects create <name> makes one.'] : [],
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
    hints: ['The service_role key and the JWT secret are shown only now: keep them somewhere safe.'],
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
  const platform = connect(context)
  const project = await platform.projects.read({ params: { id: await projectId(context, platform) } })
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
  const platform = connect(context)
  const project = await platform.projects.suspend({ params: { id: await projectId(context, platform) } })
  return { data: project, text: () => `Suspended ${clean(project.name)}: its API answers 403 until resumed.` }
}

export async function resume(context: Context): Promise<Answer> {
  const platform = connect(context)
  const project = await platform.projects.resume({ params: { id: await projectId(context, platform) } })
  return { data: project, text: () => `Resumed ${clean(project.name)}: its API serves again.` }
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

async function confirmDelete({ given, screen }: Context, project: Project): Promise<void> {
  const confirmed = given.values['confirm']
  if (confirmed !== undefined) return compareNames(confirmed, project)
  if (given.switches.has('yes')) return
  if (!screen.isInteractive) {
    throw new Failure(
      'confirmation_missing',
      `Deleting ${project.name} needs a confirmation and nobody can be asked for it here.`,
      `Run it again with --confirm ${project.slug}`,
    )
  }
  const { ask } = await import('../prompt.ts')
  const made = minute(project.created_at)
  screen.hint(
    `${clean(project.name)} (${project.slug}), created ${made}: its database, users and files go for good.`,
  )
  compareNames(await ask(`Type ${clean(project.name)} to delete it: `), project)
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
  const platform = connect(context)
  const id = await projectId(context, platform)
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
    hints: isRevealing ? [] : ['--show-service-role reveals the service_role key; that is audited.'],
  }
}

export async function pooler(context: Context): Promise<Answer> {
  const platform = connect(context)
  const strings = await platform.pooler.reveal({ params: { id: await projectId(context, platform) } })
  return {
    data: strings,
    text: paint =>
      fields(paint, [
        ['direct', strings.direct],
        ['pooled', strings.pooled ?? 'no pooler is configured'],
      ]),
    hints: ['Whoever has such a string owns the project’s database. This was audited.'],
  }
}

/** Asked for only when it will be shown: the server audits each reveal. */
export async function revealed(platform: Platform, id: string): Promise<string> {
  const { service_role_key } = await platform.projects.revealServiceRoleKey({ params: { id } })
  return service_role_key
}
