// Marks statements of a migration that can lose rows.

export const destructiveMark = '-- destructive\n'

const losing =
  /^\s*(?:drop (?:table|schema|materialized view|sequence|extension|type|domain)\b|alter table [^;]*? (?:drop column|alter column (?:"(?:[^"]|"")+"|[^\s"]+) type)\b)/i

/** The statements are at the beginning of the chunks of a script. */
export function markDestructive(script: readonly string[]): { script: string[]; isDestructive: boolean } {
  let isDestructive = false
  const marked = script.map(chunk => {
    if (!losing.test(chunk.slice(0, longestBeginning))) return chunk
    isDestructive = true
    return `\n${destructiveMark}${chunk.trimStart()}`
  })
  return { script: marked, isDestructive }
}

const longestBeginning = 1000
