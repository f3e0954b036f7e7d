import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { everyPage } from '../page.ts'
import { clean, fields, minute, table } from '../print.ts'
import { openProject } from '../project.ts'

export async function list(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const secrets = await everyPage(page =>
    platform.secrets
      .list({ params: { id }, query: page })
      .then(({ secrets: items, total }) => ({ items, total })),
  )
  return {
    data: { secrets, total: secrets.length },
    hints: secrets.length === 0 ? ['No secrets yet: plinth secrets set creates one.'] : [],
    text: paint =>
      secrets.length === 0
        ? ''
        : table(
            paint,
            ['NAME', 'UPDATED', 'ID'],
            secrets.map(({ name, updated_at, id: secretId }) => [name, minute(updated_at), secretId]),
          ),
  }
}

export async function set(context: Context): Promise<Answer> {
  const { name, value } = context.given.operands
  const { platform, id } = await openProject(context)
  const body = { name: name!, value: value ?? (await valueGiven(context)) }
  const secret = await platform.secrets.save({ params: { id }, body })
  return {
    data: secret,
    text: () => `The secret ${clean(secret.name)} is saved. Functions see it at their next invocation.`,
  }
}

/** Other processes can read arguments, so a value may also be typed or piped. */
async function valueGiven(context: Context): Promise<string> {
  const { askSecret } = await import('../prompt.ts')
  if (context.screen.isInteractive) return askSecret(context, 'Value: ')
  if (context.stdin.isTTY)
    throw new Failure(
      'prompt_impossible',
      'A value is needed, and there is no terminal to ask for it.',
      'Name it after the name, or write it to standard input.',
    )
  const { readInput } = await import('../input-file.ts')
  return (await readInput(context, '-')).replace(/\r?\n$/, '')
}

export async function remove(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const identifier = context.given.operands['name']!
  await platform.secrets.remove({ params: { id, identifier } })
  return {
    data: { project_id: id, name: identifier },
    text: () => `The secret ${clean(identifier)} is deleted.`,
  }
}

export async function rotateJwt(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const { jwt_secret } = await platform.projects.rotateJwtSecret({ params: { id } })
  return {
    data: { project_id: id, jwt_secret },
    text: paint => fields(paint, [['JWT secret', jwt_secret]]),
    hints: ['Every JWT issued so far is invalid. The new secret is shown only now.'],
  }
}

export async function rotateApiKeys(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const { anon_key, service_role_key } = await platform.projects.rotateApiKeys({ params: { id } })
  return {
    data: { project_id: id, anon_key, service_role_key },
    text: paint =>
      fields(paint, [
        ['anon key', anon_key],
        ['service_role key', service_role_key],
      ]),
    hints: ['The old keys are invalid. Configure the new ones in every application.'],
  }
}
