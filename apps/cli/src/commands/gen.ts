import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { openProject } from '../project.ts'

type Language = 'types typescript' | 'types drizzle' | 'graphql-schema'

export const typescript = (context: Context) => typesIn(context, 'typescript')
export const drizzle = (context: Context) => typesIn(context, 'drizzle')

async function typesIn(context: Context, language: 'typescript' | 'drizzle'): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const { schema: schemas } = context.given.values
  const { types } = await platform.types[language]({ params: { id }, query: schemas ? { schemas } : {} })
  return answer(context, types, `types ${language}`)
}

const roles = ['anon', 'authenticated', 'service_role'] as const

export async function graphqlSchema(context: Context): Promise<Answer> {
  const { role: given, schema } = context.given.values
  const role = roles.find(each => each === given)
  if (given !== undefined && !role)
    throw new Failure('usage_invalid_value', `--role cannot be "${given}": it must be ${roles.join(', ')}.`)
  const { platform, id } = await openProject(context)
  const query = { ...(role && { role }), ...(schema && { schema }) }
  const { types } = await platform.types.graphql({ params: { id }, query })
  return answer(context, types, 'graphql-schema')
}

function answer(context: Context, types: string, language: Language): Answer {
  const file = context.given.values['check']
  if (file !== undefined) return check(context, file, types, language)
  // The printer adds the last line end.
  return { data: { types }, text: () => types.replace(/\n$/, '') }
}

function check({ cwd }: Context, file: string, types: string, language: Language): Answer {
  if (textOf(resolve(cwd, file)) === types)
    return { data: { file, is_current: true }, text: () => '', hints: [`${file} is up to date.`] }
  throw new Failure(
    'types_stale',
    `${file} does not match the schema of the project.`,
    `Generate it again: plinth gen ${language} > ${file}`,
  )
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').replaceAll('\r\n', '\n')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new Failure('file_unreadable', `${path} cannot be read: ${(cause as Error).message}.`, null, cause)
  }
}
