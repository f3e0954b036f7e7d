// Splits shell commands in the documentation into words, as far as the examples need it.

/** The commands of a block, with continued lines joined. */
export const commandLines = (block: string): string[] => block.replaceAll('\\\n', ' ').split('\n')

/** The words of the first command of a line: up to a comment, pipe, redirection, separator or closing parenthesis. */
export function shellWords(line: string): string[] {
  const [command] = /^(?:'[^']*'|"(?:\\.|[^"\\])*"|<[^>\s]+>|[^'"#|>;)]|(?<=\S)#)*/.exec(line)!
  return [...command.matchAll(/(?:'[^']*'|"(?:\\.|[^"\\])*"|[^\s'"])+/g)].map(([word]) =>
    word.replaceAll(/'([^']*)'|"((?:\\.|[^"\\])*)"/g, (_, single, double) =>
      single === undefined ? double.replaceAll(/\\(.)/g, '$1') : single,
    ),
  )
}
