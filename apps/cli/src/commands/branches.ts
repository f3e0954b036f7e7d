// Creates, lists, compares, resets and deletes branches.
import type { Branch, CreatedBranch } from '@plinth/contract/branches.ts'
import { waitFor, whileShown } from '../backups/wait.ts'
import type { Answer, Context } from '../context.ts'
import { branchExpiry } from '../expiry.ts'
import { Failure } from '../failure.ts'
import { everyPage } from '../page.ts'
import type { Platform } from '../platform.ts'
import { bytes, clean, fields, minute, type Paint, table } from '../print.ts'
import { openProject } from '../project.ts'
import { elapsed } from '../storage/progress.ts'
import { sentence } from './backups.ts'

const listHint = 'plinth branch list shows how.'

export async function create(context: Context): Promise<Answer> {
  const { operands, switches, values } = context.given
  const expiry = values['expires'] === undefined ? {} : branchExpiry(values['expires'], Date.now())
  const { platform, id } = await openProject(context)
  const created = await platform.branches.create({
    params: { id },
    body: {
      name: operands['name']!,
      ...(switches.has('schema-only') && { schema_only: true }),
      ...expiry,
    },
  })
  const { screen } = context
  const secret = 'The service_role key and the JWT secret are shown only now. Store them in a safe place.'
  if (switches.has('no-wait'))
    return {
      data: created,
      text: paint => createdText(paint, created),
      hints: [secret, 'plinth branch list shows the progress.'],
    }
  // Before the wait, which may fail or be interrupted. With JSON there is one answer, at the end.
  if (screen.format === 'text')
    screen.item({ data: created, text: paint => `${createdText(paint, created)}\n\n${secret}` })
  try {
    const { ended, seconds } = await untilCreated(context, platform, id, created)
    return {
      data: { ...created, ...ended },
      text: () => `Ready after ${elapsed(seconds)}${sizeText(ended)}.`,
      hints: ['Its scheduled jobs and webhooks are switched off.'],
    }
  } catch (error) {
    if (screen.format !== 'text') screen.warn(`The branch has these keys: ${JSON.stringify(keysOf(created))}`)
    throw error
  }
}

const keysOf = ({ anon_key, service_role_key, jwt_secret }: CreatedBranch) => ({
  anon_key,
  service_role_key,
  jwt_secret,
})

async function untilCreated(context: Context, platform: Platform, id: string, { slug }: CreatedBranch) {
  const waited = await waitFor(context, 'Branch', () => readBranch(platform, { id, slug }), listHint)
  if (waited.ended.status !== 'active')
    throw new Failure(
      'branch_failed',
      `The branch ${slug} could not be created: ${sentence(waited.ended.error)}`,
      `Correct the cause and try again: plinth branch reset ${slug}. Or delete it: plinth branch delete ${slug}`,
    )
  return waited
}

const createdText = (paint: Paint, branch: CreatedBranch): string =>
  [
    `Created branch ${paint.bold(clean(branch.name))}`,
    '',
    fields(paint, [
      ['id', branch.id],
      ['slug', branch.slug],
      ['status', stateOf(branch)],
      ...(branch.size_bytes === null ? [] : [['size', bytes(branch.size_bytes)] as const]),
      ...(branch.expires_at === null ? [] : [['expires', minute(branch.expires_at)] as const]),
      ['API URL', branch.api_url],
      ['anon key', branch.anon_key],
      ['service_role key', branch.service_role_key],
      ['JWT secret', branch.jwt_secret],
    ]),
  ].join('\n')

const stateOf = ({ status, progress }: Branch): string =>
  progress === null
    ? status
    : `${status}, ${clean(progress.step)}${progress.bytes > 0 ? ` ${bytes(progress.bytes)}` : ''}`

export async function list(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const branches = await everyPage(page =>
    platform.branches
      .list({ params: { id }, query: page })
      .then(({ branches: items, total }) => ({ items, total })),
  )
  return {
    data: { branches, total: branches.length },
    hints:
      branches.length === 0
        ? ['No branches yet: plinth branch create <name> creates one.']
        : branches.flatMap(({ slug, error }) => (error === null ? [] : [`${slug}: ${sentence(error)}`])),
    text: paint =>
      branches.length === 0
        ? ''
        : table(
            paint,
            ['SLUG', 'ID', 'STATUS', 'SIZE', 'ROWS', 'STATE OF', 'EXPIRES'],
            branches.map(each => [
              each.slug,
              each.id,
              stateOf(each),
              each.size_bytes === null ? null : bytes(each.size_bytes),
              each.schema_only ? 'no' : 'yes',
              minute(each.copied_at),
              minute(each.expires_at),
            ]),
          ),
  }
}

export async function remove(context: Context): Promise<Answer> {
  const slug = context.given.operands['slug']!
  const { platform, id } = await openProject(context)
  const branch = await platform.branches.read({ params: { id, slug } })
  await confirm(context, 'Delete it', describe(branch, 'is deleted permanently, with its users and files'))
  const { seconds } = await whileShown(context, `Deleting ${slug}`, () =>
    platform.branches.remove({ params: { id, slug } }),
  )
  return {
    data: { id: branch.id, slug, deleted: true },
    text: () => `Deleted the branch ${slug} in ${elapsed(seconds)}${sizeText(branch)}.`,
  }
}

export async function diff(context: Context): Promise<Answer> {
  const slug = context.given.operands['slug']!
  const { platform, id } = await openProject(context)
  const { result: difference, seconds } = await whileShown(context, `Comparing ${slug}`, () =>
    platform.branches.diff({ params: { id, slug } }),
  )
  return {
    data: difference,
    text: () => difference.sql,
    hints: [
      ...(difference.sql === '' ? [`The schema of ${slug} is that of the project.`] : []),
      ...(difference.is_destructive
        ? ['Statements after "-- destructive" lose rows of the project. Read them before a push.']
        : []),
      `Compared in ${elapsed(seconds)}.`,
    ],
  }
}

export async function reset(context: Context): Promise<Answer> {
  const slug = context.given.operands['slug']!
  const { platform, id } = await openProject(context)
  const params = { id, slug }
  const branch = await platform.branches.read({ params })
  await confirm(
    context,
    'Reset it',
    describe(branch, 'gets the state of the project, and loses its own changes'),
  )
  const started = await platform.branches.reset({ params })
  if (context.given.switches.has('no-wait'))
    return {
      data: started,
      text: () => `The reset of ${slug} has begun.`,
      hints: ['plinth branch list shows the progress.'],
    }
  const { ended, seconds } = await waitFor(context, 'Reset', () => readBranch(platform, params), listHint)
  if (ended.error !== null)
    throw new Failure(
      'reset_failed',
      `The branch ${slug} could not be reset: ${sentence(ended.error)}`,
      'Correct the cause and run it again.',
    )
  return {
    data: ended,
    text: () => `Reset ${slug} in ${elapsed(seconds)}${sizeText(ended)}. Its keys are the same.`,
  }
}

const readBranch = (platform: Platform, params: { id: string; slug: string }) =>
  platform.branches.read({ params })

const sizeText = ({ size_bytes: size }: Branch) => (size === null ? '' : `, ${bytes(size)}`)

const describe = (branch: Branch, what: string) =>
  `${clean(branch.name)} (${branch.slug})${sizeText(branch)}, created ${minute(branch.created_at)}: it ${what}.`

async function confirm(context: Context, question: string, what: string): Promise<void> {
  const { given, screen } = context
  if (given.switches.has('yes')) return
  if (!screen.isInteractive)
    throw new Failure(
      'confirmation_missing',
      `${what} It needs a confirmation, and there is no terminal to ask for it.`,
      'Run it again with --yes.',
    )
  const { ask } = await import('../prompt.ts')
  screen.hint(what)
  const typed = await ask(context, `${question}? [y/N] `)
  if (!/^y(es)?$/i.test(typed.trim()))
    throw new Failure('confirmation_mismatch', 'Nothing was changed.', 'Answer y, or run it with --yes.')
}
